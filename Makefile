# Everything that a developer or a CI system does with this repository.
# Needs Go, gcc (race detector), make and git; `make lint` and `make generate` build
# their tools from the sources that tools/*/go.mod pin.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The modules of the workspace, as patterns of packages. Those of tools (tools, tools/kube, tools/lint, tools/packaging, e2e/tools/*)
# are not in it: they pin programs of others, have no package of ours, and what those programs need must not count for ours.
MODULES  := $(shell sed -n 's|^\t\./||p' go.work)
PACKAGES := $(MODULES:%=./%/...)

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X main.version=$(VERSION)
# Google's storage client speaks HTTP here; its gRPC half would add 12 MB to a binary.
TAGS     := disable_grpc_modules
GOBUILD   = CGO_ENABLED=0 go build -buildvcs=false -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)'
CLI      := ./admin/cmd/nstance-admin
DEVBOX   := ./providers/local/cmd/nstance-server-local ./agent/cmd/nstance-agent
LOCAL    := $(DEVBOX) $(CLI)
OPERATOR := ./operator/cmd/nstance-operator ./operator/cmd/nstance-pod-demand
PAVER    := ./agent/cmd/nstance-paver
CLOUDS   := $(foreach p,aws gcp proxmox,./providers/$(p)/cmd/nstance-server-$(p))

comma     := ,
TOOLS     := bin/tools
KUBE      := kube-apiserver kube-controller-manager kube-scheduler kubectl
NODE      := kubelet kubeadm kube-proxy
RUNTIME   := containerd containerd-shim-runc-v2 ctr
FUZZTIME  ?= 10s
ARCHES    ?= amd64 arm64
IMAGE     ?= nstance.dev/nstance-operator:$(VERSION)
ROUNDS    ?= 20
SOAK      ?= 10m
SIMTIME   ?= 1m
# The release that servers of this tree must be able to take over from, and the other way.
OLD       ?= 3be2737
FIRST     ?= 1
TESTFLAGS ?=

# What tests start of others' programs is gigabytes to compile and never changes for the same
# pins: it is kept outside the clone, for the next one. These names stand before the rules, as make reads
# what a target needs where the target stands.
CACHE    ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/nstance

# The file system of a node image for kind, and the Debian in it, with the packages of the day.
INNODE   := $(KUBE) $(NODE) $(RUNTIME) etcd coredns pause
DEBIAN   := $(CACHE)/debian-$(shell sha256sum <e2e/env/kind/debian.sh | cut -c1-16)-$(shell uname -m)/root.tar
NODEROOT := $(CACHE)/kind-node-$(shell cat e2e/env/kind/{debian.sh,node-root.sh,pod-image.sh,runc-less.sh,10-ptp.conflist,manifests/*} \
	e2e/cmd/pause/main.go e2e/tools/{kube,etcd,kind,containerd,coredns}/go.mod | sha256sum | cut -c1-16)-$(shell uname -m)/root.tar
# The file system of a node machine with a kubelet, on the same Debian.
INHOST   := kubelet $(RUNTIME) pause
HOSTNODE := $(CACHE)/host-node-$(shell cat e2e/env/kind/{debian.sh,pod-image.sh,runc-less.sh} e2e/env/hostnode/root.sh \
	e2e/cmd/pause/main.go e2e/tools/{kube,containerd}/go.mod | sha256sum | cut -c1-16)-$(shell uname -m)/root.tar
# What a virtual host begins with, with the packages of the day.
HOSTVM := $(CACHE)/host-vm-$(shell sha256sum <e2e/env/hostvm/image.sh | cut -c1-16)-$(shell uname -m)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build build-local
build: build-local ## Build the static binaries into bin/
	$(GOBUILD) -o bin/ $(CLOUDS) $(OPERATOR) $(PAVER)

# The SDKs of the clouds take minutes to compile, once: nobody waits for them to try things out.
build-local: ## Build what runs a shard on this box into bin/
	$(GOBUILD) -o bin/ $(LOCAL)

# Writes the licences of all that programs are linked of: the file, then the packages of the programs.
COPYRIGHT := go run -buildvcs=false ./tools/release/cmd/licences -tags '$(TAGS)' -copyright

# Equal sources give equal images: the time in them is that of the last commit.
.PHONY: image
image: ## Pack the operator into container images in dist/image, without a container engine
	for arch in $(ARCHES); do \
		GOARCH=$$arch CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o dist/linux-$$arch/ $(OPERATOR); \
	done
	$(COPYRIGHT) dist/copyright $(OPERATOR)
	go run -buildvcs=false ./tools/image/cmd/image -name nstance-operator -version '$(VERSION)' -licenses Apache-2.0 \
		-copyright dist/copyright -created "$$(git log -1 --format=%ct)" -ref '$(IMAGE)' -out dist/image \
		$(foreach arch,$(ARCHES),$(arch)=dist/linux-$(arch)/nstance-operator$(comma)dist/linux-$(arch)/nstance-pod-demand)

# What people download of a version. It needs no network once modules are in the cache. KEY: a file with
# the signing key (ECDSA, PEM); without it nothing is signed.
KEY      ?=
BUILDER  ?= https://nstance.dev/builders/unattested
RELEASE  ?= dist/release
COMMIT   := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
CREATED  := $(shell git log -1 --format=%ct 2>/dev/null || echo 1)
IMAGES   := nstance-server-aws nstance-server-gcp nstance-server-local nstance-server-proxmox nstance-agent nstance-admin
REGISTRY ?= nstance.dev
.PHONY: release release-check test-packages
release: $(TOOLS)/nfpm ## Make archives, packages, images, charts, SBOMs, checksums and provenance of VERSION in dist/release
	rm -rf dist/build '$(RELEASE)' && mkdir -p dist/build/images
	for arch in $(ARCHES); do \
		GOOS=linux GOARCH=$$arch $(GOBUILD) \
			-o dist/build/linux-$$arch/ $(LOCAL) $(CLOUDS) $(OPERATOR) $(PAVER); \
	done
	image() { name=$$1; shift; go run -buildvcs=false ./tools/image/cmd/image -name $$name -version '$(VERSION)' -licenses Apache-2.0 \
		-copyright dist/build/copyright/$$name -created '$(CREATED)' -ref "$(REGISTRY)/$$name:$(subst +,_,$(VERSION))" -out dist/build/oci/$$name "$$@" \
		&& mv dist/build/oci/$$name/oci dist/build/images/$$name; }; \
	for name in $(IMAGES); do \
		$(COPYRIGHT) dist/build/copyright/$$name $$(ls -d ./*/cmd/$$name ./providers/*/cmd/$$name 2>/dev/null); \
		image $$name $(foreach a,$(ARCHES),$(a)=dist/build/linux-$(a)/$$name); \
	done; \
	$(COPYRIGHT) dist/build/copyright/nstance-operator $(OPERATOR); \
	image nstance-operator $(foreach a,$(ARCHES),$(a)=dist/build/linux-$(a)/nstance-operator$(comma)dist/build/linux-$(a)/nstance-pod-demand)
	go run -buildvcs=false ./tools/release/cmd/release -version '$(VERSION)' -commit '$(COMMIT)' -created '$(CREATED)' \
		-arches "$$(echo $(ARCHES) | tr ' ' ,)" -nfpm $(TOOLS)/nfpm -out '$(RELEASE)' $(if $(KEY),-key '$(KEY)') -builder '$(BUILDER)'

release-check: ## Make a release twice, from two paths and as two users, and demand equal bytes (needs root)
	tools/release/check.sh '$(VERSION)' $(ARCHES)

# The programs of OLD are packed by the recipe of today: there was none.
TESTED := nstance-server-local,nstance-agent,nstance-admin
dist/old/$(OLD)/done: | $(TOOLS)/nfpm
	$(MAKE) bin/earlier/$(OLD)/done
	mkdir -p dist/old/linux-$$(go env GOARCH) && cp bin/earlier/nstance-* dist/old/linux-$$(go env GOARCH)/
	go run -buildvcs=false ./tools/release/cmd/release -only $(TESTED) -version '$(OLD)' -commit "$$(git rev-parse $(OLD))" \
		-created "$$(git log -1 --format=%ct $(OLD))" -programs dist/old -share dist/old/share -nfpm $(TOOLS)/nfpm -out $(@D)
	touch $@

test-packages: build-local dist/old/$(OLD)/done | $(TOOLS)/nfpm $(DEBIAN) ## Install, start, upgrade from OLD, remove and purge packages in a Debian with systemd (needs root, debootstrap, systemd-nspawn and rpm)
	rm -rf dist/new && mkdir -p dist/new/linux-$$(go env GOARCH) && cp bin/nstance-* dist/new/linux-$$(go env GOARCH)/
	go run -buildvcs=false ./tools/release/cmd/release -only $(TESTED) -version '$(VERSION)' -commit '$(COMMIT)' -created '$(CREATED)' \
		-programs dist/new -share dist/new/share -nfpm $(TOOLS)/nfpm -out dist/new/release
	go test -timeout 30m -count=1 -v -tags packages $(TESTFLAGS) ./e2e/suite/packages -root '$(DEBIAN)' \
		-new '$(CURDIR)/dist/new/release/packages' -old '$(CURDIR)/dist/old/$(OLD)/packages'

.PHONY: components
components: ## Make of the chart what clusterctl installs, in dist/clusterctl
	go run -buildvcs=false ./e2e/cmd/components -operator operator -out dist/clusterctl

.PHONY: dev
dev: ## Run a shard of three machines on this box, until interrupted
ifneq ($(wildcard bin/nstance-admin),)
	$(GOBUILD) -o bin/ $(LOCAL)
	bin/nstance-server-local dev --dir .dev --size 3
else
	$(GOBUILD) -o bin/ $(DEVBOX)
	@# Two fifths of the time go into the CLI with its console: nobody waits for it to see machines. Ctrl-C does not end it, for the next time.
	{ $(GOBUILD) -o bin/cli/ $(CLI) && mv bin/cli/nstance-admin bin/ && rmdir bin/cli; } & \
	bin/nstance-server-local dev --dir .dev --size 3
endif

.PHONY: dev-demand
dev-demand: $(KUBE:%=$(TOOLS)/%) $(TOOLS)/etcd $(TOOLS)/capi-core.yaml ## Run a cluster on this box that gets its Nodes in demand mode, until interrupted
	$(GOBUILD) -o bin/ $(LOCAL) $(OPERATOR) ./e2e/cmd/dev-demand
	bin/dev-demand

# The race detector of Go 1.26 crashes, or finds a race where there is none, when two timers of
# one bubble of testing/synctest that are due at once run on two processors. What has no order
# it finds on one processor too.
RACE := CGO_ENABLED=1 go test -race -cpu 1
# What most e2e tests look at (binaries, sources of other modules) is unknown to Go's test
# cache, so they always run. Not so these, which are all in one process.
INPROCESS := ./e2e/sim/... ./e2e/perf/bench
# In these one thing happens after another, in an order that a seed or the test draws: nothing races,
# and the detector makes them ten times slower.
SERIAL    := ./e2e/sim/hostsim ./e2e/sim/pavesim ./operator/controllers/hosts/rollout ./operator/controllers/hosts/prebuild ./operator/hosts/prebuild
# These read pages and scripts that are in no module or in another one: they always run too.
OUTSIDE   := ./admin/cli ./server/config ./tools/image ./tools/release ./tools/release/licences ./tools/site ./tofu/provider ./operator/demand/bootstrap ./providers/aws ./providers/aws/rules ./providers/gcp ./providers/gcp/rules ./providers/proxmox ./providers/proxmox/rules
# These run processes, and wait for them most of the time: two packages at once, and four tests of each.
# The detector is in the programs.
PROCESSES := ./e2e/suite/processes ./e2e/suite/configs ./e2e/repo/docs ./e2e/env/shards ./e2e/env/crowd ./e2e/suite/hostile ./e2e/suite/demand
# By default a program with the detector waits for a second before it exits.
PROGRAMS  := E2E_PROGRAMS='$(CURDIR)/bin/race' GORACE=atexit_sleep_ms=0

.PHONY: race
race: ## Build what the tests of processes run into bin/race/, with the race detector
	CGO_ENABLED=1 go build -race -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/race/ $(LOCAL)

.PHONY: test
test: build race ## Run all tests with the race detector
	$(RACE) -timeout 15m $(TESTFLAGS) $$(go list $(filter-out ./e2e/...,$(PACKAGES)) $(INPROCESS) | grep -vxF "$$(go list $(OUTSIDE) $(SERIAL))")
	go test -timeout 15m $(TESTFLAGS) $(SERIAL)
	$(RACE) -timeout 15m -count=1 $(TESTFLAGS) $(OUTSIDE)
	go test -timeout 15m -run TestS24 $(TESTFLAGS) ./server/groups ./server/config/requests # large files: their build tag says why not with the detector
	go test -timeout 15m -count=1 $(TESTFLAGS) $$(go list ./e2e/... | grep -vxF "$$(go list $(INPROCESS) $(PROCESSES))")
	$(PROGRAMS) go test -timeout 15m -count=1 -p 2 -parallel 4 $(TESTFLAGS) $(PROCESSES)
	go test -timeout 15m -skip 'TestOpsim$$' $(TESTFLAGS) ./e2e/sim/opsim # its package says why not with the detector
	go test -timeout 15m -run TestSeedsRepeat $(TESTFLAGS) ./e2e/sim # nor this one

.PHONY: test-crash
test-crash: build race ## Kill the server ROUNDS (20) times in the middle of a scale-up, and scale to 200 and back
	$(PROGRAMS) go test -timeout 30m -count=1 -v ./e2e/suite/processes -run 'TestF12|TestS4' -rounds $(ROUNDS) -crowd 200

NEEDS ?= 200
FLEET ?= 300
.PHONY: test-demand
test-demand: build-local ## Buy and give back the machines of NEEDS (200) needs with a server that is killed, forge a roll-up of FLEET (300) machines, and send 500 MB of hostile frames
	go test -timeout 30m -count=1 -v $(TESTFLAGS) ./e2e/suite/demand -needs $(NEEDS) -flood 500 -fleet $(FLEET) -held 20s

.PHONY: storage-servers
storage-servers: $(TOOLS)/versitygw $(TOOLS)/fake-gcs-server ## Build the storage servers that tests start

.PHONY: test-storage
test-storage: build storage-servers ## Run the tests against real storage servers
	CGO_ENABLED=1 go test -race -timeout 45m -count=1 -tags storage $(TESTFLAGS) ./e2e/suite/storage/...

# The attempts that OLD is known not to hold.
HOSTILE := e2e/suite/hostile
OPEN     = testdata/open-$(OLD).txt

bin/earlier/%/done:
	rm -rf bin/earlier && mkdir -p bin/earlier/src
	git archive $* | tar -x -C bin/earlier/src
	cd bin/earlier/src && CGO_ENABLED=0 go build -buildvcs=false -trimpath -tags '$(TAGS)' -o .. $(LOCAL)
	mkdir -p $(@D) && touch $@

# Another target than the programs above: it compiles another release of the Kubernetes libraries.
bin/earlier/%/operator: bin/earlier/%/done
	cd bin/earlier/src && CGO_ENABLED=0 go build -buildvcs=false -trimpath -tags '$(TAGS)' -o .. ./operator/cmd/nstance-operator
	touch $@

.PHONY: test-upgrade
test-upgrade: build-local bin/earlier/$(OLD)/done ## Run servers of the release OLD beside those of this tree, and attack them
	go test -timeout 15m -count=1 -v -tags upgrade $(TESTFLAGS) ./e2e/suite/upgrade
	$(if $(wildcard $(HOSTILE)/$(OPEN)),go test -timeout 15m -count=1 $(TESTFLAGS) ./$(HOSTILE) \
		-programs '$(CURDIR)/bin/earlier' -open $(OPEN))

.PHONY: e2e-upgrade
e2e-upgrade: build bin/earlier/$(OLD)/operator kube-components ## Run the operator of the release OLD with servers of this tree on a real control plane, and the other way round
	go test -timeout 20m -count=1 -v -tags kube,operator $(TESTFLAGS) ./e2e/suite/operator -operator '$(CURDIR)/bin/earlier'
	go test -timeout 20m -count=1 -v -tags kube,operator $(TESTFLAGS) ./e2e/suite/operator -servers '$(CURDIR)/bin/earlier'

.PHONY: conformance
conformance: ## Say what each driver has shown of its contract, with reports for programs in dist/conformance
	rm -rf dist/conformance && mkdir -p dist/conformance
	NSTANCE_CONFORMANCE='$(CURDIR)/dist/conformance' go test -count=1 -v -tags '$(TAGS)' -run 'Contract' ./server/driver/drivertest \
		$(foreach p,local aws gcp proxmox,./providers/$(p)) | sed -n 's/^.*conformance of /  /p; /^\(FAIL\|--- FAIL\|ok\)/p'

.PHONY: e2e-providers
e2e-providers: build storage-servers ## Run shards on fakes of AWS, Google Cloud and Proxmox VE
	go test -timeout 30m -count=1 -v -tags providers $(TESTFLAGS) ./e2e/suite/providers

.PHONY: tofu
tofu: ## Build the OpenTofu provider into bin/
	CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./tofu/cmd/terraform-provider-nstance

.PHONY: e2e-tofu
e2e-tofu: build-local tofu $(TOOLS)/tofu ## Run the acceptance tests of the OpenTofu provider on a shard of this box (builds OpenTofu once: 20 minutes)
	go test -timeout 15m -count=1 -v -tags tofu $(TESTFLAGS) ./e2e/suite/tofu

# Minutes at first, seconds when their pins are as before.
.PHONY: kube-components
kube-components: $(KUBE:%=$(TOOLS)/%) $(TOOLS)/etcd $(TOOLS)/capi-core $(TOOLS)/capi-core.yaml $(TOOLS)/clusterctl $(TOOLS)/helm ## Build the parts of Kubernetes that tests start

# One package after another: each starts a control plane, and two of them on two processors make
# calls of one operator run out of time. Without the race detector: what is tested are programs of
# their own, and it would look at the tests.
ONKUBE := ./e2e/suite/operator ./e2e/suite/install ./e2e/suite/demand/stories ./e2e/env/kube/...
.PHONY: e2e
e2e: build kube-components $(TOOLS)/kubeadm ## Run the tests on a real Kubernetes control plane that each commit has to pass
	go test -timeout 30m -count=1 -p 1 -tags kube $(TESTFLAGS) $(ONKUBE)
	go test -timeout 10m -count=1 -tags console -run '^TestConsole$$' $(TESTFLAGS) ./e2e/suite/console # needs Chromium: apt-get install -y chromium

# The stories of make e2e break most often, a few for each subject. These are all of the operator's: what takes
# minutes, because a shard or an API server is away for long or there are many of everything, has the tag operator too.
.PHONY: e2e-operator
e2e-operator: build kube-components ## Run all stories of the operator on a real Kubernetes control plane (a quarter of an hour)
	go test -timeout 40m -count=1 -tags kube,operator $(TESTFLAGS) ./e2e/suite/operator

# The built files are committed: nothing but these two needs Node.
CONSOLE := admin/console/web
.PHONY: console check-console
console: ## Build the web console into admin/console/web/dist (needs Node 20)
	cd $(CONSOLE) && npm ci --engine-strict --no-audit --no-fund && npm run --silent check && npm run --silent build -- --emptyOutDir

check-console: ## Test the web console, build it again and compare it with what is committed (needs Node 20)
	cd $(CONSOLE) && npm ci --engine-strict --no-audit --no-fund && npm run --silent check && npm run --silent test \
		&& npm run --silent build -- --outDir '$(CURDIR)/bin/console' --emptyOutDir
	diff -r $(CONSOLE)/dist bin/console || { echo "the built console is not what its sources make: make console"; exit 1; }

# Debian's package chromium, or what CHROMIUM names. SHOTS: a directory for pictures of the pages.
SHOTS ?=
.PHONY: e2e-console
e2e-console: build-local ## Open the web console in Chromium, with a shard on this box behind it (needs tmux, too)
	go test -timeout 45m -count=1 -v -tags console $(TESTFLAGS) ./e2e/suite/console $(if $(SHOTS),-screenshots '$(abspath $(SHOTS))')

.PHONY: record-first-look
record-first-look: build-local ## Do what the README says in Chromium and tmux, and write docs/first-look.md of it
	go test -timeout 15m -count=1 -v -tags console -run '^TestTheFirstFiveMinutes$$' ./e2e/suite/console -recording '$(CURDIR)/docs'

.PHONY: e2e-dashboards
e2e-dashboards: build-local ## Evaluate what dashboards and alerts ask over a scrape of a shard on this box
	go test -timeout 10m -count=1 -v $(TESTFLAGS) ./e2e/env/panels ./e2e/suite/dashboards

HOSTS ?= 500
.PHONY: e2e-fleet
e2e-fleet: build kube-components ## Run the tests of whole fleets with HOSTS (500) host machines on a real control plane
	go test -timeout 60m -count=1 -v -tags kube,operator,fleet $(TESTFLAGS) ./e2e/suite/operator -run 'Fleet$$|Fleet[A-Z]' -hosts $(HOSTS)

# Where a node image can be pulled, its name; else one is made. KUBECONFIG counts where it is said
# to make: nobody installs this in the cluster that his shell happens to be about.
KIND_NODE_IMAGE ?=
GIVEN := $(if $(filter command line,$(origin KUBECONFIG)),$(KUBECONFIG))
# The last one has machines that boot join the cluster, which they reach when kind makes it.
E2EKIND := ./e2e/env/kube/... ./e2e/suite/operator/... $(if $(GIVEN),,./e2e/suite/demand/kubeadm)
.PHONY: e2e-kind
e2e-kind: build kube-components kind-images $(if $(GIVEN),,$(TOOLS)/kind $(if $(KIND_NODE_IMAGE),,$(NODEROOT))) ## Run the same tests on clusters of kind, or on the cluster of KUBECONFIG=
	cd e2e && go mod download
	export CGO_ENABLED=1; \
	$(if $(GIVEN),NSTANCE_TEST_PLACE=given KUBECONFIG='$(abspath $(GIVEN))',IMAGES='$(CURDIR)/bin/images' \
		KIND_NODE_IMAGE='$(KIND_NODE_IMAGE)' NODE_ROOT='$(NODEROOT)' CACHE='$(CACHE)' e2e/env/kind/engine.sh e2e/env/kind/clusters.sh) \
	go test -race -timeout 60m -count=1 -p 1 -tags kube,operator,kind -v $(TESTFLAGS) $(E2EKIND)

# The operator has the name by which its chart asks for it.
APP := $(shell sed -n 's/^appVersion: *"\?\([^"]*\)"\?$$/\1/p' operator/charts/nstance-operator/Chart.yaml)
.PHONY: kind-images
kind-images: build $(TOOLS)/capi-core
	image() { go run -buildvcs=false ./tools/image/cmd/image -name "$$1" -ref "$$2" -out "bin/images/$$1" "$$(go env GOARCH)=$$3"; }; \
	image nstance-operator ghcr.io/nstance-dev/nstance-operator:$(APP) bin/nstance-operator,bin/nstance-pod-demand; \
	image capi-core nstance.test/capi-core:test $(TOOLS)/capi-core

POOLS ?= 200
NODES ?= 2000
PODS ?= 5
.PHONY: e2e-scale
e2e-scale: build kube-components ## Measure the operator with POOLS (200), NODES (2000) and PODS (5) on each, and write docs/kubernetes/scale.md
	go test -timeout 60m -count=1 -v -tags scale $(TESTFLAGS) ./e2e/perf/scale -pools $(POOLS) -nodes $(NODES) -pods $(PODS) -report '$(CURDIR)/docs/kubernetes/scale.md'

.PHONY: e2e-demand
e2e-demand: build kube-components $(TOOLS)/kubeadm ## Run all stories of demand mode on a real control plane, measure it, and write docs/kubernetes/demand-scale.md
	go test -timeout 60m -count=1 -v -tags kube,demand $(TESTFLAGS) ./e2e/suite/demand/stories
	go test -timeout 60m -count=1 -v -tags kube,demand $(TESTFLAGS) ./e2e/perf/demandscale -report '$(CURDIR)/docs/kubernetes/demand-scale.md'

# These make machines in an account, and delete them: docs/testing.md says what it takes.
.PHONY: live-aws live-gcp live-proxmox
live-aws: ## Run the drivers' contract in an account of AWS (costs money)
live-gcp: ## Run the drivers' contract in a project of Google Cloud (costs money)
live-proxmox: ## Run the drivers' contract in a cluster of Proxmox VE
live-aws live-gcp live-proxmox: live-%:
	go test -timeout 60m -count=1 -v -tags live $(TESTFLAGS) ./providers/$* -run TestLive

.PHONY: soak
soak: build ## Break a hundred machines at random for SOAK (10m)
	go test -timeout 60m -count=1 -v -tags soak $(TESTFLAGS) ./e2e/perf/soak -for $(SOAK)

.PHONY: sim
sim: ## Simulate shards for SIMTIME (1m) from seed FIRST (1) on
	go test -timeout 60m -count=1 -v ./e2e/sim -run 'TestSim$$|TestScenarios|TestStories' -for $(SIMTIME) -first $(FIRST)

.PHONY: sim-operator
sim-operator: ## Simulate shards with an operator for SIMTIME (1m) from seed FIRST (1) on
	go test -timeout 60m -count=1 -v ./e2e/sim/opsim -for $(SIMTIME) -first $(FIRST)

.PHONY: sim-demand
sim-demand: ## Simulate demand mode for SIMTIME (1m) from seed FIRST (1) on
	go test -timeout 60m -count=1 -v ./e2e/sim/demandsim -run 'TestDemandSim$$|TestStories$$|TestE' -for $(SIMTIME) -first $(FIRST)

.PHONY: sim-hosts
sim-hosts: ## Simulate host machines, their versions and their nodes, for twice SIMTIME (1m) from seed FIRST (1) on
	go test -timeout 60m -count=1 -v ./e2e/sim/hostsim -run 'TestHostSim$$|TestStories$$|TestM' -for $(SIMTIME) -first $(FIRST)
	go test -timeout 60m -count=1 -v ./e2e/sim/pavesim -run 'TestPaveSim$$|TestStories$$|TestM' -every -for $(SIMTIME) -first $(FIRST)

# What seeds 1 to 50 and all scenarios do, event by event: record it before a change that is
# to leave behaviour as it is, and compare after.
BEHAVIOUR ?= $(CURDIR)/bin/behaviour

.PHONY: sim-record
sim-record: ## Record in BEHAVIOUR (bin/behaviour) what the simulator's plans do
	go test -timeout 60m -count=1 -v -tags behaviour ./e2e/sim -run TestBehaviour -record $(BEHAVIOUR)

.PHONY: sim-compare
sim-compare: ## Demand that the simulator's plans do what is recorded in BEHAVIOUR
	go test -timeout 60m -count=1 -tags behaviour ./e2e/sim -run TestBehaviour -compare $(BEHAVIOUR)

.PHONY: sim-long
sim-long: ## Simulate shards for an hour, with seeds of the day
	go test -timeout 90m -count=1 -v ./e2e/sim -run 'TestSim$$' -for 1h -keep-on -first $$(date +%Y%m%d)0000

.PHONY: test-configs
test-configs: build-local ## Make 20,000 random configurations from seed FIRST (1) on: each that validates must lead
	go test -timeout 60m -count=1 -v ./e2e/suite/configs -configs 20000 -processes 50 -first $(FIRST)

.PHONY: sim-mistakes
sim-mistakes: ## Demand that the simulator finds each seeded mistake
	go test -timeout 60m -count=1 -v -tags mistakes ./e2e/sim ./e2e/sim/opsim ./e2e/sim/demandsim ./e2e/sim/hostsim ./e2e/sim/pavesim -run TestMistakesAreFound

.PHONY: cover
cover: build ## Run all tests and show the coverage by function
	go test -timeout 15m -coverpkg=nstance.dev/... -coverprofile=bin/cover.out $(PACKAGES)
	go tool cover -func=bin/cover.out

.PHONY: fuzz
fuzz: ## Run every fuzzer for FUZZTIME (10s)
	tools/fuzz.sh $(FUZZTIME) $(MODULES)

.PHONY: bench
bench: build ## Measure what the design promises
	go run ./e2e/cmd/bench -history bin/benchmarks.jsonl

.PHONY: bench-report
bench-report: build ## Measure, and write docs/benchmarks.md
	go run ./e2e/cmd/bench -report docs/benchmarks.md -history docs/benchmarks.jsonl

# What the engine of demand mode decides is the same on every architecture. An emulated machine is slow
# and shows that as well as a real one; the package qemu-user-static has it.
.PHONY: demand-arm64
demand-arm64: ## Repeat the golden traces of the engine of demand mode on an emulated arm64
	GOARCH=arm64 CGO_ENABLED=0 go test -count=1 -exec qemu-aarch64-static ./server/demand ./server/demand/vector -run 'TestScenarios|TestE10|TestE2_Draw|TestDraw'
	GOARCH=arm64 CGO_ENABLED=0 go test -count=1 -exec qemu-aarch64-static ./e2e/sim/demandsim -run 'TestStories$$'

# The tags of tests that their own targets run. What has one of them is vetted too, so that it still compiles when
# somebody runs it; those that go together at once, and the others, whose TestMain is another one, in turn.
TAGGED      := behaviour,console,demand,fleet,hosts,kind,kube,live,mistakes,operator,packages,providers,scale,soak,storage,tmux,tofu,upgrade
HOSTSTAGGED := hostnodes hostservice hostvm

.PHONY: lint
lint: $(TOOLS)/buf $(TOOLS)/golangci-lint ## Check format, code, requirements of modules and wire contract
	@unformatted=$$(gofmt -l $(MODULES)); [ -z "$$unformatted" ] || { echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; }
	for module in $(MODULES); do (cd $$module && GOWORK=off go list -deps ./... > /dev/null); done
	go vet $(PACKAGES)
	go vet -tags $(TAGGED) $$(grep -rlE --include='*.go' '^//go:build .*\b($(subst $(comma),|,$(TAGGED)))\b' $(MODULES) | xargs -n1 dirname | sort -u | sed 's|^|./|')
	for tag in $(HOSTSTAGGED); do go vet -tags $$tag ./e2e/suite/hosts; done
	$(TOOLS)/golangci-lint run --allow-parallel-runners $(PACKAGES)
	$(TOOLS)/buf lint
	$(TOOLS)/buf breaking --against protos/baseline.binpb

.PHONY: vuln
vuln: $(TOOLS)/govulncheck ## Look for known vulnerabilities (needs the network)
	$(TOOLS)/govulncheck $(PACKAGES)

.PHONY: generate
generate: $(TOOLS)/buf $(TOOLS)/controller-gen ## Regenerate everything that is generated and committed
	tools/generate.sh .

.PHONY: test-tmux
test-tmux: ## Try nstance-admin top in a real terminal; needs tmux
	@command -v tmux >/dev/null || { echo "tmux is missing: apt-get install tmux"; exit 1; }
	go test -tags tmux -run Tmux ./admin/cmd/nstance-admin

.PHONY: texts
texts: ## Write what the programs say to people to docs/reference/texts.md
	go run ./e2e/cmd/texts

# Pages keep their diagrams as text; what was drawn of them is committed, so that neither readers nor CI need mermaid.
MERMAID := 11.17.2

.PHONY: site pictures
site: ## Make a static site of the pages, in dist/site; fails for dead links and pages outside of docs/site.yaml
	go run -buildvcs=false ./tools/site/cmd/site -out dist/site

pictures: ## Draw the diagrams of pages that have changed, to docs/pictures (needs npm and Chromium)
	mkdir -p $(CACHE)/mermaid-$(MERMAID)
	[ -e $(CACHE)/mermaid-$(MERMAID)/package ] || { cd $(CACHE)/mermaid-$(MERMAID) && npm pack --silent mermaid@$(MERMAID) && tar xzf mermaid-$(MERMAID).tgz; }
	go run -buildvcs=false ./tools/site/cmd/site -draw $(CACHE)/mermaid-$(MERMAID)/package/dist/mermaid.min.js

.PHONY: check-generate
check-generate: $(TOOLS)/buf $(TOOLS)/controller-gen ## Fail if something generated is out of date
	tools/check-generate.sh

.PHONY: proto-baseline
proto-baseline: $(TOOLS)/buf ## Accept the wire contract as the one not to be broken
	$(TOOLS)/buf build --exclude-source-info -o protos/baseline.binpb

# Each module also stands alone, with its own requirements.
.PHONY: check-modules
check-modules: ## Build every module without the workspace
	for module in $(MODULES); do (cd $$module && GOWORK=off go build -buildvcs=false ./...); done

.PHONY: clean
clean: ## Remove what was built, and the machines of make dev
	rm -rf bin dist .dev .dev-demand

# The tools, rebuilt when their pins change. One build makes all of a module.
$(TOOLS)/buf: tools/go.mod tools/go.sum
	cd tools && GOWORK=off go build -buildvcs=false -o ../$(TOOLS)/ tool
	@touch $@

$(TOOLS)/govulncheck: $(TOOLS)/buf

$(TOOLS)/nfpm: tools/packaging/go.mod tools/packaging/go.sum
	cd tools/packaging && GOWORK=off CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '-s -w' -o ../../$(TOOLS)/ tool
	@touch $@

$(TOOLS)/versitygw: e2e/tools/storage/go.mod e2e/tools/storage/go.sum
	cd e2e/tools/storage && GOWORK=off CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '-s -w' -o ../../../$(TOOLS)/ tool
	@touch $@

$(TOOLS)/fake-gcs-server: $(TOOLS)/versitygw

# The folder of what a module of e2e/tools pins.
kept = $(CACHE)/$(1)-$(shell cat e2e/tools/$(1)/go.{mod,sum} | sha256sum | cut -c1-16)-$(shell uname -m)

# $(call component,PROGRAM,MODULE,PACKAGE[,LDFLAGS])
# To link a part of Kubernetes takes 2 GB of memory, so each waits for the one before it, with make -j as well.
define component
mkdir -p $(TOOLS) $(call kept,$(2))
[ -e $(call kept,$(2))/$(1) ] || { cd e2e/tools/$(2) && GOWORK=off CGO_ENABLED=0 go build -buildvcs=false -trimpath \
	-ldflags '-s -w $(4)' -o $(call kept,$(2))/$(1).$$$$.part $(3) && mv $(call kept,$(2))/$(1).$$$$.part $(call kept,$(2))/$(1); }
ln -sfn $(call kept,$(2))/$(1) $(TOOLS)/$(1)
touch $(TOOLS)/$(1)
endef

# They say v0.0.0 unless they are told their version.
KUBE_VERSION := $(shell sed -n 's|^.*k8s.io/kubernetes v\([0-9.]*\).*|\1|p' e2e/tools/kube/go.mod)
KUBE_LDFLAGS  = -X $(1).gitVersion=v$(KUBE_VERSION) -X $(1).gitMajor=$(word 1,$(subst ., ,$(KUBE_VERSION))) -X $(1).gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION)))

$(KUBE:%=$(TOOLS)/%) $(NODE:%=$(TOOLS)/%): $(TOOLS)/%: e2e/tools/kube/go.mod e2e/tools/kube/go.sum
	$(call component,$*,kube,k8s.io/kubernetes/cmd/$*,$(call KUBE_LDFLAGS,k8s.io/component-base/version))

$(TOOLS)/etcd: e2e/tools/etcd/go.mod e2e/tools/etcd/go.sum
	$(call component,etcd,etcd,go.etcd.io/etcd/server/v3)

$(TOOLS)/capi-core: e2e/tools/capi/go.mod e2e/tools/capi/go.sum
	$(call component,capi-core,capi,sigs.k8s.io/cluster-api/core)

$(TOOLS)/tofu: e2e/tools/tofu/go.mod e2e/tools/tofu/go.sum
	$(call component,tofu,tofu,github.com/opentofu/opentofu/cmd/tofu)

$(TOOLS)/kind: e2e/tools/kind/go.mod e2e/tools/kind/go.sum
	$(call component,kind,kind,sigs.k8s.io/kind)

$(TOOLS)/coredns: e2e/tools/coredns/go.mod e2e/tools/coredns/go.sum
	$(call component,coredns,coredns,.)

$(RUNTIME:%=$(TOOLS)/%): $(TOOLS)/%: e2e/tools/containerd/go.mod e2e/tools/containerd/go.sum
	$(call component,$*,containerd,github.com/containerd/containerd/v2/cmd/$*)

$(TOOLS)/pause: e2e/cmd/pause/main.go
	CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '-s -w' -o $@ ./e2e/cmd/pause

$(DEBIAN):
	mkdir -p $(@D)
	e2e/env/kind/debian.sh $@

.PHONY: e2e-hosts e2e-hosts-node e2e-hosts-vm e2e-hosts-service
e2e-hosts: | $(DEBIAN) ## Build, boot and switch real node machines on this box (needs root, debootstrap and systemd-nspawn)
	go test -timeout 60m -count=1 -v -tags hosts $(TESTFLAGS) ./e2e/suite/hosts -root '$(DEBIAN)'

e2e-hosts-node: build kube-components | $(HOSTNODE) ## Have a host join a real control plane, with a real kubelet, and repave it
	go test -timeout 90m -count=1 -v -tags hostnodes $(TESTFLAGS) ./e2e/suite/hosts -root '$(HOSTNODE)' -paver '$(CURDIR)/bin/nstance-paver'

e2e-hosts-vm: build kube-components | $(HOSTNODE) $(HOSTVM)/disk ## Have a virtual host with systemd do that, and reboot it (needs root and QEMU)
	go test -timeout 150m -count=1 -v -tags hostvm $(TESTFLAGS) ./e2e/suite/hosts -root '$(HOSTNODE)' -image '$(HOSTVM)'

e2e-hosts-service: | $(DEBIAN) ## Run node machines as services, where systemd is PID 1
	go test -timeout 60m -count=1 -v -tags hostservice $(TESTFLAGS) ./e2e/suite/hosts -root '$(DEBIAN)'

$(HOSTNODE): | $(DEBIAN) $(INHOST:%=$(TOOLS)/%)
	mkdir -p $(@D)
	e2e/env/hostnode/root.sh $@ $(DEBIAN) $(TOOLS)

$(HOSTVM)/disk:
	mkdir -p $(CACHE)
	e2e/env/hostvm/image.sh $(HOSTVM)

$(NODEROOT): | $(DEBIAN) $(INNODE:%=$(TOOLS)/%)
	mkdir -p $(@D)
	e2e/env/kind/node-root.sh $@ $(DEBIAN) $(TOOLS) "$$(cd e2e/tools/kind && GOWORK=off go list -m -f '{{.Dir}}' sigs.k8s.io/kind)"

$(TOOLS)/clusterctl: e2e/tools/clusterctl/go.mod e2e/tools/clusterctl/go.sum
	$(call component,clusterctl,clusterctl,sigs.k8s.io/cluster-api/cmd/clusterctl)

$(TOOLS)/helm: e2e/tools/helm/go.mod e2e/tools/helm/go.sum
	$(call component,helm,helm,helm.sh/helm/v3/cmd/helm)

# What a release of Cluster API installs, in the same form.
$(TOOLS)/capi-core.yaml: e2e/tools/capi/go.mod | $(TOOLS)/kubectl
	$(TOOLS)/kubectl kustomize "$$(cd e2e/tools/capi && GOWORK=off go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)/core/config/default" >$@

$(TOOLS)/etcd: | $(TOOLS)/kube-apiserver
$(TOOLS)/kube-controller-manager: | $(TOOLS)/etcd
$(TOOLS)/kube-scheduler: | $(TOOLS)/kube-controller-manager
$(TOOLS)/kubectl: | $(TOOLS)/kube-scheduler
$(TOOLS)/capi-core: | $(TOOLS)/kubectl
$(TOOLS)/clusterctl: | $(TOOLS)/capi-core
$(TOOLS)/helm: | $(TOOLS)/clusterctl
$(TOOLS)/kubelet: | $(TOOLS)/kubectl
$(TOOLS)/kubeadm: | $(TOOLS)/kubelet
$(TOOLS)/kube-proxy: | $(TOOLS)/kubeadm

$(TOOLS)/golangci-lint: tools/lint/go.mod tools/lint/go.sum
	cd tools/lint && GOWORK=off go build -buildvcs=false -o ../../$(TOOLS)/ tool
	@touch $@

$(TOOLS)/controller-gen: tools/kube/go.mod tools/kube/go.sum
	cd tools/kube && GOWORK=off go build -buildvcs=false -o ../../$(TOOLS)/ tool
	@touch $@
