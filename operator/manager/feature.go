package manager

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"nstance.dev/operator/backoff"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/cluster"
	"nstance.dev/operator/controllers/hosts/operations"
	"nstance.dev/operator/controllers/hosts/rollout"
	"nstance.dev/operator/controllers/hosts/versions"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/hosts/opdrain"
	"nstance.dev/operator/hosts/pullsecrets"
	"nstance.dev/operator/hosts/reports"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/poddemand"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/telemetry"
	"nstance.dev/operator/unsent"
)

// A feature is a part of the operator that stands by itself: the kinds that it works with, the
// rights that it needs, what it reads of Pods, and how its controllers start. One that is off
// needs none of that. CONTRIBUTING.md, "A new CRD kind", says what else a new kind needs.
type feature struct {
	name string
	// on says whether an operator with these settings has it; nil: each has.
	on func(config.Settings) bool
	// scheme adds its types; nil: they are in the scheme already.
	scheme func(*runtime.Scheme) error
	// kinds are the custom resources without which it cannot work.
	kinds []kind
	// rights are all that it does at the API servers.
	rights []Right
	// pods returns what puts what it reads of a Pod from the cache into what the cache keeps;
	// nil: it reads none there. What from holds must not be changed.
	pods func(config.Settings) func(from, into *corev1.Pod)
	// webhooks registers its webhooks, on every replica; nil: it has none.
	webhooks func(ctrl.Manager, config.Settings) error
	// early starts what does not need the shards, and comes before the operator has its
	// identity; objects starts what needs no Nodes; nodes starts the rest, once the Nodes'
	// cluster can be reached. Each may be nil.
	early   func(context.Context, wiring) error
	objects func(context.Context, wiring) error
	nodes   func(context.Context, wiring) error
}

// wiring is what a feature is set up with.
type wiring struct {
	settings config.Settings
	version  string
	cluster  string // name of the Cluster and of what goes with it
	config   func() config.Config
	api      *rest.Config // of the operator's objects
	mgr      ctrl.Manager
	live     client.Client // without a cache
	workload *workloadCluster
	// connected are the connections to the shards; nil before the operator has its identity.
	connected func() *shards.Set
	// registered says until when the operator's certificate is good, or why it has none.
	registered func() (until time.Time, problem *cluster.Problem)
	shardState *shardState
	metrics    *metrics.Metrics
	traces     *telemetry.Traces // of changes to the shards; nil: there are none
	notices    notices
	demandFiles
}

// translation is how Pods are translated now.
func (w wiring) translation() translate.Options {
	return poddemand.Translation(w.settings.Demand.Pods, w.penalties)
}

// shardState is what is known of the shards, and who hears of it.
type shardState struct {
	hub     *inventory.Hub
	feed    *inventory.Feed
	coolOff inventory.CoolOffs // where providers had no room
	unsent  *unsent.Sizes      // sizes that statuses and events wait for

	reclaims reclaims // what they ask to be drained
	hosts    hostState
}

// hostState is what features of host machines have in common.
type hostState struct {
	reports    *reports.Store
	versions   *versions.Reconciler
	operations *operations.Reconciler
	drains     opdrain.Drains   // what operations ask to be drained
	rollouts   rollout.Requests // what they ask to be drained
	apiServer  func() string    // version of the API server
	secrets    *pullsecrets.Checker
	counts     *metrics.Hosts
}

// recorder is the name under which events are sent.
const recorder = "nstance-operator"

// controllerOptions are the same for all controllers, save that each has a limiter of its own. Many
// read Pods, of which there may be very many: a process that did not wait for the first list of
// them would begin it once more.
func (w wiring) controllerOptions() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: w.settings.MaxConcurrentReconciles,
		CacheSyncTimeout:        w.settings.KubeAPI.CacheSyncTimeout,
		RateLimiter:             backoff.Limiter(),
	}
}

// The stages in which features start.
func (f feature) atFirst() func(context.Context, wiring) error   { return f.early }
func (f feature) atObjects() func(context.Context, wiring) error { return f.objects }
func (f feature) atNodes() func(context.Context, wiring) error   { return f.nodes }

// kind is a custom resource.
type kind struct {
	version schema.GroupVersion
	object  client.Object
	// atNodes: it is served where the Nodes are.
	atNodes bool
	// shared: its objects are not told apart by the filter of several operators, because
	// somebody else makes them.
	shared bool
}

// String returns its name.
func (k kind) String() string { return reflect.TypeOf(k.object).Elem().Name() }

// kindsOf are the kinds that some features work with, each once.
func kindsOf(some []feature) []kind {
	var all []kind
	for _, f := range some {
		for _, k := range f.kinds {
			if !slices.ContainsFunc(all, func(other kind) bool { return other.version == k.version && other.String() == k.String() }) {
				all = append(all, k)
			}
		}
	}
	return all
}

// Where is where a right applies.
type Where string

// The places. Nodes and Pods may be in another cluster than the operator's objects.
const (
	InNamespace       Where = "the operator's namespace"
	ManagementCluster Where = "the cluster of the operator's objects"
	WorkloadCluster   Where = "the cluster of the Nodes"
	SystemOfWorkload  Where = "kube-system of the cluster of the Nodes"
	// NamespaceOfWorkload has the operator's name for its namespace, also in another cluster.
	NamespaceOfWorkload Where = "the operator's namespace in the cluster of the Nodes"
)

// Right is what the operator may do with one resource.
type Right struct {
	Where    Where
	Group    string // of the API; empty: the core's
	Resource string
	Verbs    []string
}

// to is a right with its verbs in one word each, separated by spaces.
func to(verbs string, where Where, group, resource string) Right {
	return Right{Where: where, Group: group, Resource: resource, Verbs: strings.Fields(verbs)}
}

// Groups of the API.
const (
	core           = ""
	clusterAPI     = "cluster.x-k8s.io"
	infrastructure = "infrastructure.cluster.x-k8s.io"
	controlPlane   = "controlplane.cluster.x-k8s.io"
	demand         = "demand.nstance.dev"
	certificates   = "certificates.k8s.io"
)
