package importer

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
)

// errFeature is matched by the error about a Cluster API that takes no MachinePools.
var errFeature = errors.New("feature MachinePool of Cluster API is switched off; switch it on with --feature-gates=MachinePool=true")

const infra = client.FieldOwner(infrav1.FieldManager)

// poolsAtOnce is how many pools are made at the same time.
const poolsAtOnce = 10

// carryOut carries steps out, those of one pool in their order. After one that failed the
// others of the same pool are left to the next pass; pools do not wait for one another.
func (r *Reconciler) carryOut(ctx context.Context, w world, steps []Step) error {
	var names []string
	of := map[string][]Step{}
	for _, step := range steps {
		name := poolOf(step)
		if of[name] == nil {
			names = append(names, name)
		}
		of[name] = append(of[name], step)
		if made, ok := step.(CreatePool); ok {
			w.pools[name] = r.pool(made)
		}
	}
	errs := make([]error, len(names))
	var g errgroup.Group
	g.SetLimit(poolsAtOnce)
	for i, name := range names {
		g.Go(func() error {
			errs[i] = r.carryOutOf(ctx, w.pools[name], of[name])
			return nil
		})
	}
	_ = g.Wait() // errs has them all
	return errors.Join(errs...)
}

// carryOutOf carries the steps of one pool out; object is the pool, nil if there is none.
func (r *Reconciler) carryOutOf(ctx context.Context, object *infrav1.NstanceMachinePool, steps []Step) error {
	for _, step := range steps {
		if err := r.do(ctx, object, step); err != nil {
			return fmt.Errorf("import pool %s: %w", poolOf(step), err)
		}
	}
	return nil
}

func poolOf(step Step) string {
	switch s := step.(type) {
	case CreatePool:
		return s.Name
	case CreateShardGroup:
		return s.Pool
	case CreateMachinePool:
		return s.Pool
	case ReportImported:
		return s.Pool
	case ReportUncovered:
		return s.Pool
	case ReportStaticSize:
		return s.Pool
	case ReportBroken:
		return s.Pool
	default:
		panic(fmt.Sprintf("imports: no such step: %T", step))
	}
}

func (r *Reconciler) do(ctx context.Context, object *infrav1.NstanceMachinePool, step Step) error {
	switch s := step.(type) {
	case CreatePool:
		return r.create(ctx, object)
	case CreateShardGroup:
		shardGroup, err := r.shardGroup(object, s)
		if err != nil {
			return err
		}
		return r.create(ctx, shardGroup)
	case CreateMachinePool:
		return r.machinePool(ctx, object, int32(s.Replicas)) // of 64 shards with 10000 each
	case ReportImported:
		r.report(object, normal, "PoolImported", s.Reason)
	case ReportUncovered:
		r.report(object, warning, "ShardNotCovered", s.Reason)
	case ReportStaticSize:
		r.report(object, normal, "StaticSizeDiffers", s.Reason)
	case ReportBroken:
		r.report(object, warning, "ImportBroken", s.Reason)
	}
	return nil
}

// machinePool makes the MachinePool of a pool, under another name where somebody else's has
// taken the pool's since the plan was made.
func (r *Reconciler) machinePool(ctx context.Context, object *infrav1.NstanceMachinePool, replicas int32) error {
	var err error
	for _, name := range []string{object.Name, capi.Taken(object.Name)} {
		err = r.create(ctx, capi.MachinePool(object, name, r.Cluster, replicas))
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		var there clusterv1.MachinePool
		if lookErr := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &there); lookErr != nil || infrastructure(&there) == object.Name {
			return errors.Join(err, client.IgnoreNotFound(lookErr)) // the next pass sees which it is
		}
	}
	return fmt.Errorf("%w: delete one of the MachinePools %s and %s, or make one for NstanceMachinePool %s", err, object.Name, capi.Taken(object.Name), object.Name)
}

// create makes an object. One that is there already was made since everything was read:
// the next pass sees it.
func (r *Reconciler) create(ctx context.Context, object client.Object) error {
	err := r.Client.Create(ctx, object, infra)
	switch {
	case feature(err):
		return fmt.Errorf("%w: %w", errFeature, err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case err != nil:
		return fmt.Errorf("make %T %s: %w", object, object.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("imported", "kind", fmt.Sprintf("%T", object), "name", object.GetName(), "reason", "a shard has a group without a pool")
	return nil
}

// pool is a new pool, with what it was made from written on it.
func (r *Reconciler) pool(s CreatePool) *infrav1.NstanceMachinePool {
	return &infrav1.NstanceMachinePool{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: s.Name,
			Labels:      map[string]string{clusterv1.ClusterNameLabel: r.Cluster, infrav1.LabelManaged: "true"},
			Annotations: map[string]string{infrav1.AnnotationImportedFrom: s.ImportedFrom},
		},
		Spec: infrav1.NstanceMachinePoolSpec{
			Group: s.Group, Shards: s.Shards, Template: s.Config.Template, Subnets: s.Config.Subnets,
			LoadBalancers: s.Config.LoadBalancers, InstanceType: s.Config.InstanceType, Vars: s.Config.Vars,
			Demand: s.Demand, InstanceRequirements: s.Requirements,
		},
	}
}

// shardGroup is the shard group of a pool on one shard, as large as the shard has it.
func (r *Reconciler) shardGroup(owner *infrav1.NstanceMachinePool, s CreateShardGroup) (*infrav1.NstanceShardGroup, error) {
	shardGroup := &infrav1.NstanceShardGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: capi.ShardGroup(s.Group, s.Shard), Labels: capi.ShardGroupLabels(owner, s.Shard, r.Cluster),
		},
		Spec: infrav1.NstanceShardGroupSpec{
			Group: s.Group, Shard: s.Shard, Size: ptr.To(int32(s.Size)), // at most MaxSize
			Template: s.Config.Template, Subnets: s.Config.Subnets, LoadBalancers: s.Config.LoadBalancers,
			InstanceType: s.Config.InstanceType, Vars: s.Config.Vars,
		},
	}
	if err := controllerutil.SetControllerReference(owner, shardGroup, r.Client.Scheme()); err != nil {
		return nil, fmt.Errorf("own NstanceShardGroup %s: %w", shardGroup.Name, err)
	}
	return shardGroup, nil
}
