# SPDX-License-Identifier: Apache-2.0
# The front door. Meson does the building; these are the words to remember.

BUILD  := build
EXPORT := export
STATE  := .state

.PHONY: help all serve check bench soak clean

help:
	@echo 'make serve   build, and serve ./$(EXPORT) to this machine'
	@echo 'make check   build, and run every test'
	@echo 'make bench   measure speed beside nfs-ganesha'
	@echo 'make soak    fuzz for an hour, and cut the power for another (SECONDS=3600)'

all:
	@tools/need.sh build
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) -Dbuildtype=release >/dev/null
	@ninja -C $(BUILD) --quiet

serve: all
	@mkdir -p $(STATE) && { [ -d $(EXPORT) ] || mkdir -m 1777 $(EXPORT); }
	@exec $(BUILD)/src/cli/holdfast serve --state $(STATE) $(SERVE) "$(CURDIR)/$(EXPORT)"

check:
	@tools/need.sh check
	@tools/check.py

bench: all
	@tools/need.sh bench
	@meson setup --reconfigure $(BUILD) >/dev/null && ninja -C $(BUILD) --quiet
	@/usr/bin/python3 bench/run.py --holdfast $(BUILD)/src/cli/holdfast

SECONDS ?= 3600
soak:
	@tools/need.sh soak
	@tests/fuzz/run.sh $(SECONDS)
	@$(MAKE) --no-print-directory all && tests/e2e/soak.sh $(SECONDS)

clean:
	rm -rf $(BUILD) build-asan
