package archtest

import "slices"

// modulePrefix is what the path of each module of the repository begins with.
const modulePrefix = "nstance.dev/"

// A layer says what of this repository a package may import. The own tree of the
// layer is always allowed; the Go standard library and other modules are the subject
// of bans.
type layer struct {
	// dir is the directory of the package and, unless a longer dir matches, of all
	// packages below it. An element may be a pattern of path.Match, such as `*`.
	dir string
	// ours are the directories that may be imported: `x` is one package, `x/...` a tree.
	ours []string
	// tests are directories that only test files, and packages that exist for tests,
	// may import in addition.
	tests []string
}

// layers is the import order of the repository, from the bottom to the top.
var layers = []layer{
	{dir: "protos"},

	{dir: "server/outbound", tests: []string{"server/lease"}},
	{dir: "server/objectstore", ours: []string{"server/outbound"}, tests: []string{"server/outbound/outboundtest"}},
	{dir: "server/driver", ours: []string{"protos/identity"}},
	{dir: "server/config", ours: []string{"server/driver"}},
	{dir: "server/config/jsonc"},
	{dir: "server/config/schema"},
	{dir: "server/config/texttemplate"},
	{
		dir:  "server/config/document",
		ours: []string{"protos/identity", "server/layout", "server/config/jsonc", "server/config/schema"},
	},
	{
		dir:   "server/config/groupfile",
		ours:  []string{"server/config/document", "server/config/jsonc"},
		tests: []string{"server/config/configtest"},
	},
	{dir: "server/config/rules", ours: []string{"server/config/document", "server/config/jsonc", "server/driver"}},
	{
		dir: "server/config/effective",
		ours: []string{
			"protos/identity", "server/config/document", "server/config/groupfile", "server/config/jsonc", "server/config/rules",
			"server/driver",
		},
		tests: []string{"server/config", "server/config/configtest"},
	},
	{
		dir:   "server/config/dryrun",
		ours:  []string{"server/config/document", "server/config/effective", "server/config/jsonc", "server/config/texttemplate"},
		tests: []string{"server/config/configtest", "server/driver"},
	},
	{
		dir: "server/config/checks",
		ours: []string{
			"protos/identity", "server/layout", "server/driver", "server/config/document", "server/config/dryrun",
			"server/config/effective", "server/config/groupfile", "server/config/jsonc", "server/config/schema",
			"server/config/texttemplate",
		},
		tests: []string{"server/config", "server/config/configtest"},
	},
	{
		dir: "server/config/requests",
		ours: []string{
			"protos/identity", "server/config/document", "server/config/dryrun", "server/config/effective",
			"server/config/groupfile", "server/config/jsonc",
		},
		tests: []string{"server/config/configtest", "server/config/rules"},
	},
	{dir: "server/layout", ours: []string{"protos/identity"}},
	{dir: "server/render", ours: []string{"protos/identity", "server/layout", "server/config/document", "server/config/texttemplate"}},
	{dir: "server/fleet", ours: []string{"protos/identity"}},
	{dir: "server/demand"},
	{dir: "server/binding", ours: []string{"server/layout", "server/fleet", "server/demand"}},
	{
		dir:   "server/offers",
		ours:  []string{"server/config/document", "server/config/effective", "server/demand/...", "server/driver"},
		tests: []string{"server/config", "server/config/groupfile"},
	},
	{
		dir:   "server/demandloop",
		ours:  []string{"protos/binding", "protos/identity", "server/layout", "server/lease", "server/binding", "server/cache", "server/demand/...", "server/fleet"},
		tests: fakes,
	},
	{
		dir: "server/demandmode",
		ours: []string{
			"protos/binding", "protos/identity", "server/agents", "server/cache", "server/config/document", "server/config/effective",
			"server/demand/...", "server/demandloop", "server/driver", "server/fleet", "server/groups", "server/instances", "server/offers",
			"server/provisioning",
		},
		tests: fakes,
	},
	{dir: "server/placement", ours: []string{"server/driver", "server/retry"}},
	{dir: "server/calls"},
	{dir: "server/masking"},
	{dir: "server/conns"},
	{dir: "server/refusal"},
	{dir: "server/retry"},
	{dir: "server/attest", ours: []string{"protos/identity"}},
	{dir: "server/catalog", ours: []string{"server/driver", "server/retry"}},
	{dir: "server/images", ours: []string{"server/driver"}},
	{dir: "server/userdata", ours: []string{"server/config/document", "server/retry"}},
	{dir: "server/balancers", ours: []string{"protos/identity", "server/driver"}},
	{dir: "server/explain", ours: []string{"protos/identity", "server/fleet"}},
	{dir: "server/whatif", ours: []string{"server/config/document", "server/config/effective"}},
	{dir: "server/secrets", ours: []string{"protos/identity", "server/objectstore"}, tests: fakes},
	{
		dir:   "server/secrets/backends",
		ours:  []string{"server/config/document", "server/objectstore", "server/secrets/..."},
		tests: fakes,
	},
	{dir: "server/lease", ours: []string{"server/objectstore"}, tests: fakes},
	{dir: "server/lease/handback", ours: []string{"server/lease", "server/objectstore"}, tests: fakes},
	{
		dir:   "server/peers",
		ours:  []string{"server/lease", "server/conns"},
		tests: append([]string{"protos/identity", "server/pki", "server/secrets"}, fakes...),
	},
	{dir: "server/pki", ours: []string{"protos/identity", "server/objectstore", "server/secrets"}, tests: fakes},
	{
		dir: "server/keyring",
		ours: []string{
			"server/config/document", "server/config/effective", "server/lease", "server/objectstore", "server/pki", "server/secrets/...",
		},
		tests: append([]string{"protos/identity"}, fakes...),
	},
	{
		dir: "server/configsource",
		ours: []string{
			"server/config", "server/config/effective", "server/config/jsonc", "server/driver", "server/layout", "server/objectstore",
			"server/refusal", "server/retry",
		},
		tests: append([]string{"server/config/document"}, fakes...),
	},
	{
		dir:   "server/provider",
		ours:  []string{"server/config/document", "server/driver", "server/fleet", "server/lease", "server/retry"},
		tests: append([]string{"protos/identity"}, fakes...),
	},
	{dir: "server/cache", ours: []string{"protos/identity", "server/fleet", "server/explain"}},
	{
		dir: "server/operatorauth",
		ours: []string{
			"protos/...", "server/layout", "server/cache", "server/config/document", "server/lease", "server/objectstore", "server/pki",
		},
		tests: append([]string{"server/secrets"}, fakes...),
	},
	{dir: "server/filesync/delivery"},
	{
		dir:   "server/filesync/sources",
		ours:  []string{"server/layout", "server/config/document", "server/config/texttemplate", "server/objectstore", "server/render", "server/secrets"},
		tests: fakes,
	},
	{
		dir: "server/filesync",
		ours: []string{
			"protos/...", "server/layout", "server/cache", "server/config/document", "server/config/effective", "server/config/texttemplate",
			"server/explain", "server/fleet", "server/lease", "server/objectstore", "server/pki", "server/render", "server/secrets",
		},
		tests: fakes,
	},
	{dir: "server/keylock"},
	{dir: "server/power", ours: []string{"server/driver"}},
	{
		dir: "server/instances",
		ours: []string{
			"protos/identity", "server/layout", "server/cache", "server/config/groupfile", "server/fleet", "server/keylock", "server/lease",
			"server/objectstore", "server/retry",
		},
		tests: fakes,
	},
	{
		dir: "server/groups",
		ours: []string{
			"protos/identity", "server/layout", "server/cache", "server/config/document", "server/config/effective", "server/config/groupfile",
			"server/config/requests", "server/explain", "server/fleet", "server/lease", "server/objectstore", "server/refusal",
		},
		tests: append([]string{"server/config"}, fakes...),
	},
	{
		dir:   "server/liveness",
		ours:  []string{"protos/identity", "server/cache", "server/driver", "server/fleet", "server/instances"},
		tests: fakes,
	},
	{
		dir: "server/agents",
		ours: []string{
			"protos/...", "server/attest", "server/layout", "server/cache", "server/config/document", "server/fleet", "server/instances",
			"server/keylock", "server/lease", "server/objectstore", "server/pki", "server/refusal", "server/retry", "server/filesync",
		},
		tests: append([]string{"server/secrets"}, fakes...),
	},
	{
		dir:   "server/hostlogs",
		ours:  []string{"protos/identity", "server/layout", "server/objectstore"},
		tests: append([]string{"server/retry"}, fakes...),
	},
	{
		dir: "server/hosts",
		ours: []string{
			"protos/...", "server/layout", "server/cache", "server/driver", "server/fleet", "server/hostlogs", "server/keylock", "server/lease", "server/objectstore", "server/power",
			"server/refusal", "server/retry",
		},
		tests: fakes,
	},
	{
		dir:   "server/decisions",
		ours:  []string{"protos/identity", "server/explain", "server/fleet", "server/layout", "server/objectstore", "server/retry"},
		tests: append([]string{"server/lease"}, fakes...),
	},
	{dir: "server/traces", ours: []string{"protos/identity", "server/fleet"}},
	{
		dir: "server/provisioning",
		ours: []string{
			"protos/identity", "server/layout", "server/cache", "server/config/document", "server/config/effective", "server/driver",
			"server/explain", "server/fleet", "server/images", "server/instances", "server/objectstore", "server/pki", "server/placement",
			"server/provider", "server/render", "server/retry", "server/traces", "server/userdata",
		},
		tests: append([]string{"server/config", "server/config/groupfile", "server/lease"}, fakes...),
	},
	{
		dir: "server/status",
		ours: []string{
			"protos/identity", "server/cache", "server/catalog", "server/config/effective", "server/config/groupfile", "server/driver",
			"server/explain", "server/fleet", "server/layout", "server/refusal",
		},
		tests: []string{"server/config/document"},
	},
	{
		dir:   "server/events",
		ours:  []string{"protos/identity", "server/cache", "server/fleet", "server/refusal", "server/status"},
		tests: []string{"server/config/document", "server/config/effective", "server/driver"},
	},
	{
		dir: "server/removal",
		ours: []string{
			"protos/identity", "server/layout", "server/balancers", "server/cache", "server/config/effective", "server/driver",
			"server/fleet", "server/instances", "server/objectstore", "server/retry",
		},
		tests: append([]string{"server/config", "server/config/document", "server/config/groupfile", "server/lease", "server/provider"}, fakes...),
	},
	{
		dir: "server/garbage",
		ours: []string{
			"protos/identity", "server/layout", "server/cache", "server/config/effective", "server/driver", "server/fleet",
			"server/instances", "server/objectstore", "server/retry",
		},
		tests: append([]string{"server/config", "server/lease", "server/provider"}, fakes...),
	},
	{dir: "server/telemetry"},
	{dir: "server/shard", ours: belowShard, tests: append([]string{"server/demand/..."}, fakes...)},
	{dir: "server/demandapi", ours: []string{"protos/...", "server/demand/...", "server/demandloop", "server/refusal"}},
	{dir: "server/operatorapi", ours: append([]string{"server/shard", "server/operatorauth", "server/demand/..."}, belowShard...), tests: fakes},
	{dir: "server/rpc", ours: append([]string{"server/shard", "server/operatorapi", "server/operatorauth", "server/demandapi", "server/conns"}, belowShard...), tests: fakes},
	{dir: "server/serve", ours: []string{"protos/...", "server/..."}},

	{dir: "agent", ours: []string{"protos/..."}},
	{dir: "agent/paver/render", ours: []string{"protos/nstance/v1"}},
	{
		dir: "admin",
		ours: []string{
			"protos/...", "server/config/...", "server/objectstore/...", "server/secrets/...",
			"server/pki", "server/layout", "server/lease", "server/driver", "server/demand/...", "server/offers",
			"providers/aws/rules", "providers/gcp/rules", "providers/local/rules", "providers/proxmox/rules",
			"operator/api/hosts/v1alpha1", "operator/hosts/assignment", "operator/hosts/rollout", "operator/hosts/selection", "operator/hosts/versions", // host machines are objects of Kubernetes
			"agent/paver/render", // what a host would write can be seen without one
		},
		tests: fakes,
	},
	// What speaks HTTP knows the wire and who calls; connections and contexts are the command line's.
	{dir: "admin/gateway", ours: []string{"protos/nstance/v1"}, tests: []string{"admin/shardclient/..."}},
	{dir: "admin/hub", ours: []string{"protos/nstance/v1"}, tests: []string{"admin/shardclient/..."}},
	{dir: "admin/tokens", ours: []string{"protos/identity"}},
	{
		dir: "admin/httpapi", ours: []string{"protos/identity", "admin/gateway", "admin/tokens", "server/pki"},
		tests: []string{"admin/shardclient/...", "protos/nstance/v1"},
	},
	{
		dir: "admin/console", ours: []string{"protos/identity", "admin/gateway", "admin/hub"},
		tests: []string{"admin/shardclient/...", "protos/nstance/v1"},
	},
	// The OpenTofu provider is another client of the API, with the connections of the command line.
	{dir: "tofu", ours: []string{"protos/identity", "protos/nstance/v1", "admin/shardclient", "admin/manifest", "admin/wait"}},
	{
		// A provider knows the contract that it fulfils and the process that it is
		// linked into, and nothing else of the server.
		dir:   "providers/*",
		ours:  []string{"protos/identity", "server/driver", "server/serve"},
		tests: []string{"server/config", "server/driver/drivertest/..."},
	},
	// The cluster on one box makes what people otherwise make before their first server.
	{
		dir: "providers/local/dev",
		ours: []string{
			"protos/identity", "providers/local/...", "server/layout", "server/cache", "server/config/...", "server/driver",
			"server/objectstore/file", "server/operatorauth", "server/pki", "server/serve",
		},
	},
	// What a provider's part of a configuration is checked by: every program can link it.
	{
		dir:   "providers/*/rules",
		ours:  []string{"protos/identity", "server/driver"},
		tests: []string{"server/driver/drivertest/docpage"},
	},
	// Inside a provider: the calls of the API know nothing of what the driver does with them.
	{dir: "providers/aws/api", ours: []string{"server/driver", "server/outbound"}, tests: []string{"server/outbound/outboundtest"}},
	{dir: "providers/aws/instances", ours: []string{"protos/identity", "server/driver", "providers/aws/api", "providers/aws/rules"}},
	{dir: "providers/aws/balancers", ours: []string{"server/driver", "providers/aws/api", "providers/aws/instances", "providers/aws/rules"}},
	{dir: "providers/aws/catalog", ours: []string{"server/driver", "providers/aws/api", "providers/aws/rules"}},
	{dir: "providers/aws/leader", ours: []string{"server/driver", "providers/aws/api"}},
	{dir: "providers/gcp/api", ours: []string{"server/driver", "providers/gcp/rules"}},
	{dir: "providers/gcp/balancers", ours: []string{"protos/identity", "server/driver", "providers/gcp/api", "providers/gcp/rules"}},
	{dir: "providers/gcp/catalog", ours: []string{"server/driver", "providers/gcp/api", "providers/gcp/rules"}},
	{dir: "providers/gcp/instances", ours: []string{"protos/identity", "server/driver", "providers/gcp/api", "providers/gcp/rules"}},
	{dir: "providers/gcp/leader", ours: []string{"server/driver", "providers/gcp/api"}},
	{dir: "providers/local/process", ours: []string{"protos/identity"}},
	{dir: "providers/local/store", ours: []string{"protos/identity", "server/driver", "providers/local/process"}},
	{dir: "providers/local/images", ours: []string{"server/driver"}},
	{dir: "providers/local/balancers", ours: []string{"protos/identity", "server/driver", "providers/local/store"}},
	{dir: "providers/local/machines", ours: []string{"protos/identity", "server/driver", "providers/local/process", "providers/local/rules", "providers/local/store"}},
	{dir: "providers/proxmox/api", ours: []string{"server/driver", "server/outbound", "providers/proxmox/rules"}, tests: []string{"server/outbound/outboundtest"}},
	{dir: "providers/proxmox/locks"},
	{dir: "providers/proxmox/seed", ours: []string{"protos/identity"}},
	{dir: "providers/proxmox/metadata", ours: []string{"protos/identity", "server/driver"}},
	{dir: "providers/proxmox/placement", ours: []string{"server/driver", "providers/proxmox/api", "providers/proxmox/rules"}},
	{
		dir:  "providers/proxmox/cluster",
		ours: []string{"protos/identity", "server/driver", "providers/proxmox/api", "providers/proxmox/metadata", "providers/proxmox/placement"},
	},
	{
		dir:  "providers/proxmox/template",
		ours: []string{"server/driver", "providers/proxmox/api", "providers/proxmox/cluster", "providers/proxmox/placement", "providers/proxmox/rules"},
	},
	{
		dir: "providers/proxmox/machines",
		ours: []string{
			"protos/identity", "server/driver", "providers/proxmox/api", "providers/proxmox/cluster", "providers/proxmox/metadata",
			"providers/proxmox/rules", "providers/proxmox/seed",
		},
	},
	// What stands in for a cloud knows the cloud's API and what is the same for all
	// stand-ins; as a process it also runs the machines.
	{dir: "providers/*/*fake", ours: []string{"protos/identity", "server/driver", "server/driver/drivertest/wire"}},
	{dir: "providers/*/cmd/fake-*", ours: []string{"providers/...", "server/driver", "server/driver/drivertest/..."}},
	{dir: "tools/image"},
	{dir: "tools/release"},
	{dir: "tools/site"},
	// A suite knows what it runs on and no other suite; what it runs on knows no test.
	{dir: "e2e/env", ours: product},
	{dir: "e2e/env/inplace", ours: []string{"e2e/env/kube", "e2e/repo/chart"}},
	{dir: "e2e/env/demandcluster", ours: append([]string{"e2e/env/...", "e2e/repo/chart"}, product...)},
	{dir: "e2e/sim", ours: product},
	{dir: "e2e/repo", ours: append([]string{"e2e/env/..."}, product...)},
	{dir: "e2e/perf", ours: append([]string{"e2e/env/...", "e2e/repo/chart"}, product...)},
	{dir: "e2e/perf/demandbench", ours: append([]string{"e2e/perf/bench", "e2e/sim", "e2e/sim/demandsim"}, product...)},
	{dir: "e2e/perf/consolebench", ours: []string{"e2e/perf/bench", "e2e/env/browser", "e2e/env/browser/stage"}},
	{dir: "e2e/suite/*", ours: append([]string{"e2e/env/...", "e2e/repo/chart", "e2e/repo/components"}, product...)},
	{
		dir: "e2e/cmd/dev-demand",
		ours: []string{
			"e2e/env/inplace", "e2e/env/kube", "e2e/env/kube/nodes", "e2e/repo/chart", "providers/local", "providers/local/dev",
			"server/cache", "server/driver",
		},
	},
	{dir: "e2e/cmd", ours: []string{"e2e/perf/...", "e2e/repo/..."}},
}

// product is everything that is not there for tests of the whole.
var product = []string{"protos/...", "server/...", "agent/...", "admin/...", "tofu/...", "operator/...", "providers/...", "tools/..."}

// allLayers are those of the operator too.
var allLayers = append(slices.Clip(layers), operatorLayers...)

// belowShard is everything that the shard's loop is made of.
var belowShard = []string{
	"protos/...", "server/driver", "server/config/...", "server/layout", "server/render",
	"server/objectstore", "server/secrets", "server/lease", "server/pki", "server/fleet/...",
	"server/explain", "server/whatif", "server/cache",
	"server/placement", "server/catalog", "server/images", "server/userdata", "server/filesync",
	"server/balancers", "server/attest", "server/refusal", "server/retry", "server/provider", "server/instances", "server/groups", "server/keylock",
	"server/demandloop", "server/demandmode", "server/liveness", "server/agents", "server/status", "server/events", "server/provisioning", "server/traces", "server/removal", "server/garbage",
	"server/hostlogs", "server/hosts", "server/power", "server/decisions", "server/calls", "server/masking",
}

// fakes are the stand-ins for the outer world that tests use.
var fakes = []string{"server/objectstore/...", "server/driver/drivertest"}
