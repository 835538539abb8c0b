package archtest

// pureImports is all that the decision package may import besides what its layer
// allows: it decides from state and time, and reaches for nothing.
var pureImports = []string{
	"bytes", "cmp", "container/heap", "crypto/sha256", "encoding", "encoding/binary",
	"encoding/hex", "encoding/json", "errors", "fmt", "hash", "hash/fnv", "iter", "maps",
	"math", "math/bits", "slices", "sort", "strconv", "strings", "time", "unicode",
	"unicode/utf8", "unique",
}

// pureDirs are the packages that get the time as an argument: they never look at a
// clock, wait, or draw a random number.
var pureDirs = []string{
	"server/fleet", "server/power", "server/demand", "server/explain", "server/config", "server/render", "server/layout", "server/filesync/delivery", "server/whatif",
	"operator/controllers/machinepool/planner", "operator/controllers/machine/placement",
	"operator/demand/settings", "operator/demand/translate", "operator/demand/aggregate", "operator/demand/fit", "operator/demand/split", "operator/demand/stuck", "operator/demand/states", "operator/demand/readback", "operator/demand/outbound", "operator/demand/tally", "operator/hosts/assignment", "operator/hosts/lifecycle", "operator/hosts/operations", "operator/hosts/selection", "operator/hosts/versions", "protos/binding", "protos/needs", "protos/rollup",
	"agent/paver/render",
	"providers/proxmox/cluster", "providers/proxmox/metadata", "providers/proxmox/placement", "providers/proxmox/template",
}

// pureFiles are decisions that share a package with what carries them out. They keep the
// same rules.
var pureFiles = []string{
	"server/offers/book.go", "server/offers/class.go", "server/offers/groups.go", "server/offers/offering.go", "server/offers/pools.go", "server/offers/types.go",
	"operator/hosts/inplace/decide.go",
	"operator/drain/action.go", "operator/drain/classify.go", "operator/drain/clusterapi.go", "operator/drain/decision.go", "operator/drain/done.go",
	"operator/drain/observe.go", "operator/drain/phases.go", "operator/drain/result.go", "operator/drain/state.go", "operator/drain/step.go",
	"operator/drain/evaluate.go", "operator/drain/source.go", "operator/drain/turn.go",
	"operator/inventory/event.go", "operator/inventory/listing.go", "operator/inventory/shard.go", "operator/inventory/store.go",
	"operator/inventory/cooloff.go",
	"operator/nodes/match.go", "operator/nodes/owner.go", "operator/nodes/providerid.go",
	"operator/controllers/demand/reclaim/decide.go", "operator/controllers/demand/nodes/decide.go",
	"operator/controllers/importer/plan.go", "operator/controllers/importer/gate.go", "operator/controllers/importer/orphaned.go",
	"operator/controllers/importer/sizes.go", "operator/controllers/importer/staticsize.go",
}

// decisionDirs are the pure packages that moreover have no concurrency at all.
var decisionDirs = []string{
	"server/fleet", "server/explain", "server/filesync/delivery",
	"operator/controllers/machinepool/planner", "agent/paver/transition",
}
