package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "nstance.dev/operator/api/controlplane/v1beta1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
)

// How often the statuses are brought up to date when nothing happens, and how old the
// version of the API server may be.
const (
	refresh       = time.Minute
	versionMaxAge = 10 * time.Minute
)

// Shard is the part of a connection to a shard that is used here.
type Shard interface {
	Name() string
	Status() shards.Status
}

var _ Shard = (*shards.Shard)(nil)

// Reconciler keeps the objects of one cluster. All fields are required. It looks at one
// cluster and must not run twice at the same time.
type Reconciler struct {
	Client          client.Client
	Namespace, Name string // of the three objects
	// Endpoint is where the API server of the Nodes is reached.
	Endpoint clusterv1.APIEndpoint
	// OperatorVersion is the version of this build.
	OperatorVersion string
	// ServerVersion asks the API server of the Nodes for its version.
	ServerVersion func(context.Context) (string, error)
	// Shards returns the configured shards, in their order.
	Shards    func() []Shard
	Inventory *inventory.Store
	Events    events.EventRecorder
	Now       func() time.Time

	// told is the endpoint that users were last told of because it is not the object's.
	told clusterv1.APIEndpoint

	version struct { // of the API server
		text    string
		learnt  time.Time
		failure error
	}
}

var manager = status.FieldManager("cluster")

// Reconcile makes what is missing and brings the statuses up to date. There is one
// cluster, so the request says nothing.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	have, err := r.observe(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, object := range missing(objects(r.Namespace, r.Name, r.Endpoint), have) {
		if have.cluster != nil && ptr.Deref(have.cluster.Spec.Paused, false) {
			break
		}
		switch err := r.Client.Create(ctx, object); {
		case apierrors.IsAlreadyExists(err): // the cache is behind
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return ctrl.Result{}, nil
		case err != nil:
			return ctrl.Result{}, fmt.Errorf("make %T %s: %w", object, object.GetName(), err)
		default:
			ctrl.LoggerFrom(ctx).Info("created object of the cluster", "kind", fmt.Sprintf("%T", object), "name", object.GetName())
		}
	}
	if have.infrastructure != nil && !external(have.infrastructure) {
		if err := r.infrastructure(ctx, have.infrastructure); err != nil {
			return ctrl.Result{}, err
		}
	}
	if have.controlPlane != nil && !external(have.controlPlane) {
		if err := r.controlPlane(ctx, have.controlPlane); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: refresh}, nil
}

// observe reads the three objects.
func (r *Reconciler) observe(ctx context.Context) (trio, error) {
	cluster, infrastructure, controlPlane := &clusterv1.Cluster{}, &infrav1.NstanceCluster{}, &controlplanev1.NstanceControlPlane{}
	var have trio
	key := client.ObjectKey{Namespace: r.Namespace, Name: r.Name}
	for _, one := range []struct {
		object client.Object
		found  func()
	}{
		{cluster, func() { have.cluster = cluster }},
		{infrastructure, func() { have.infrastructure = infrastructure }},
		{controlPlane, func() { have.controlPlane = controlPlane }},
	} {
		switch err := r.Client.Get(ctx, key, one.object); {
		case err == nil:
			one.found()
		case !apierrors.IsNotFound(err):
			return trio{}, fmt.Errorf("read %T %s: %w", one.object, r.Name, err)
		}
	}
	return have, nil
}

// infrastructure fills in the address of the API server where there is none, and writes
// the status. Of one that is paused only that is written.
func (r *Reconciler) infrastructure(ctx context.Context, object *infrav1.NstanceCluster) error {
	paused, err := capi.Paused(ctx, r.Client, object)
	if err != nil {
		return err
	}
	v := view{object: object, paused: paused, version: r.OperatorVersion, shards: r.look()}
	next := clusterStatus(v, r.Now())
	if paused {
		next = v.pausedStatus(r.Now())
	} else if err := r.fillEndpoint(ctx, object); err != nil {
		return err
	}
	if same(object.Status, next) {
		return nil
	}
	return r.write(ctx, &infrav1.NstanceCluster{ObjectMeta: object.ObjectMeta, Status: next})
}

// fillEndpoint fills in the address of the API server where there is none, and tells once of
// another one.
func (r *Reconciler) fillEndpoint(ctx context.Context, object *infrav1.NstanceCluster) error {
	switch was := object.Spec.ControlPlaneEndpoint; {
	case was.Host == "":
		spec := map[string]any{"controlPlaneEndpoint": map[string]any{"host": r.Endpoint.Host, "port": int64(r.Endpoint.Port)}}
		if err := status.ApplySpec(ctx, r.Client, object, spec, infrav1.FieldManager); err != nil {
			return fmt.Errorf("fill in the endpoint of NstanceCluster %s: %w", object.Name, err)
		}
	case was != r.Endpoint && r.told != was:
		r.told = was
		r.Events.Eventf(object, nil, corev1.EventTypeWarning, "EndpointChanged", "Configure",
			"the operator reaches the API server at %s; the endpoint stays %s, as Cluster API demands", r.Endpoint.String(), was.String())
	}
	return nil
}

// same is whether a status has all that it is to have. Conditions of others are not looked
// at.
func same(old, next infrav1.NstanceClusterStatus) bool {
	old.Conditions = status.Select(old.Conditions, next.Conditions)
	return equality.Semantic.DeepEqual(old, next)
}

// controlPlane writes the status of the control plane.
func (r *Reconciler) controlPlane(ctx context.Context, object *controlplanev1.NstanceControlPlane) error {
	is, err := capi.Paused(ctx, r.Client, object)
	if err != nil {
		return err
	}
	next := *object.Status.DeepCopy()
	if is {
		next.Conditions = status.With(next.Conditions, paused(true), object.Generation, r.Now())
	} else {
		version, why := r.serverVersion(ctx)
		next = controlPlaneStatus(object, version, why, r.Now())
	}
	if equality.Semantic.DeepEqual(object.Status, next) {
		return nil
	}
	return r.write(ctx, &controlplanev1.NstanceControlPlane{ObjectMeta: object.ObjectMeta, Status: next})
}

// write stores a status.
func (r *Reconciler) write(ctx context.Context, object client.Object) error {
	if err := status.Apply(ctx, r.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

// serverVersion returns the version of the API server, or why it is not known. One that
// was learnt not long ago is not asked for again.
func (r *Reconciler) serverVersion(ctx context.Context) (version, why string) {
	v := &r.version
	if v.text == "" || r.Now().Sub(v.learnt) >= versionMaxAge {
		v.text, v.failure = r.ServerVersion(ctx)
		v.learnt = r.Now()
	}
	if v.failure != nil {
		return "", v.failure.Error()
	}
	return v.text, ""
}

// look takes together what is known of each configured shard.
func (r *Reconciler) look() []shardView {
	var views []shardView
	for _, shard := range r.Shards() {
		v := shardView{name: shard.Name(), connection: shard.Status()}
		r.Inventory.Read(v.name, func(s *inventory.Shard) {
			groups := s.Groups()
			v.groups, v.instances, v.heard = len(groups), len(s.Instances("")), !s.State().GroupsAt.IsZero()
			for _, g := range groups {
				v.asleep = v.asleep || g.GetSuspended()
				v.zone, v.region, v.provider = g.GetZone(), g.GetRegion(), g.GetProvider()
			}
		})
		views = append(views, v)
	}
	return views
}
