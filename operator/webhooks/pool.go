package webhooks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// CheckPool says what is wrong with a pool that is to be stored, and what is odd. old is
// the pool as it is, nil for a new one; others are the pools of the namespace, in which
// the pool itself is passed over.
//
// A conflict that old has already is no error: a pool that was stored unchecked must
// still be editable. A pool that is being deleted is not checked.
func CheckPool(pool, old *infrav1.NstanceMachinePool, others []infrav1.NstanceMachinePool, known Known) ([]string, field.ErrorList) {
	if !pool.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return oddities(pool, known), conflicts(pool, old, others)
}

// conflicts are the shards of the pool on which another pool has its group.
func conflicts(pool, old *infrav1.NstanceMachinePool, others []infrav1.NstanceMachinePool) field.ErrorList {
	var errs field.ErrorList
	for i, shard := range pool.Spec.Shards {
		if old != nil && old.Spec.Group == pool.Spec.Group && slices.Contains(old.Spec.Shards, shard) {
			continue
		}
		for _, other := range others {
			if other.Name == pool.Name || other.Spec.Group != pool.Spec.Group || !slices.Contains(other.Spec.Shards, shard) {
				continue
			}
			errs = append(errs, field.Invalid(field.NewPath("spec", "shards").Index(i), shard, fmt.Sprintf(
				"(%s, %s) already belongs to pool %s; take the shard out of one of the two, or choose another group",
				pool.Spec.Group, shard, other.Name)))
		}
	}
	return errs
}

// oddities are what may be meant so, and what may come right later.
func oddities(pool *infrav1.NstanceMachinePool, known Known) []string {
	if known.Shards == nil {
		return nil
	}
	var warnings []string
	anywhere, everywhereSynced := false, true
	for _, name := range pool.Spec.Shards {
		shard, configured := known.Shards[name]
		if !configured {
			warnings = append(warnings, fmt.Sprintf(
				"spec.shards: the operator's configuration has no shard %s; its part of the pool waits until it has", name))
			everywhereSynced = false
			continue
		}
		everywhereSynced = everywhereSynced && shard.Synced
		group, has := shard.Groups[pool.Spec.Group]
		anywhere = anywhere || has
		if warning := oddType(pool.Spec.InstanceType, name, group); has && warning != "" {
			warnings = append(warnings, warning)
		}
		for _, f := range ignored(pool.Spec, group) {
			warnings = append(warnings, fmt.Sprintf(
				"spec.%s: ignored, because the configuration of shard %s has group %s and says something else; leave the field out",
				f, name, pool.Spec.Group))
		}
	}
	if everywhereSynced && !anywhere && pool.Spec.Template == "" {
		warnings = append(warnings, fmt.Sprintf(
			"spec.template: none of the shards has group %s yet, and without a template they cannot make it", pool.Spec.Group))
	}
	return warnings
}

// ignored names the fields of a pool that mean nothing where the group is static.
func ignored(spec infrav1.NstanceMachinePoolSpec, group Group) []string {
	if !group.Static {
		return nil
	}
	var fields []string
	if spec.Template != "" && spec.Template != group.Template {
		fields = append(fields, "template")
	}
	if spec.Subnets != "" && spec.Subnets != group.Subnets {
		fields = append(fields, "subnets")
	}
	same := slices.Equal(slices.Sorted(slices.Values(spec.LoadBalancers)), slices.Sorted(slices.Values(group.LoadBalancers)))
	if len(spec.LoadBalancers) > 0 && !same {
		fields = append(fields, "loadBalancers")
	}
	return fields
}

// oddType warns of a machine type that a shard will refuse; empty: it will not.
func oddType(instanceType, shard string, group Group) string {
	if instanceType == "" || len(group.InstanceTypes) == 0 || slices.Contains(group.InstanceTypes, instanceType) {
		return ""
	}
	return fmt.Sprintf("spec.instanceType: shard %s does not allow %s, but %s",
		shard, instanceType, strings.Join(group.InstanceTypes, ", "))
}

// PoolValidator answers the API server's questions about pools.
type PoolValidator struct {
	// Reader finds the other pools, and what is known of the shards.
	Reader client.Reader
}

var _ admission.Validator[*infrav1.NstanceMachinePool] = PoolValidator{}

// ValidateCreate checks a new pool.
func (v PoolValidator) ValidateCreate(ctx context.Context, pool *infrav1.NstanceMachinePool) (admission.Warnings, error) {
	return v.validate(ctx, pool, nil)
}

// ValidateUpdate checks a changed pool.
func (v PoolValidator) ValidateUpdate(ctx context.Context, old, pool *infrav1.NstanceMachinePool) (admission.Warnings, error) {
	return v.validate(ctx, pool, old)
}

// ValidateDelete lets every pool go: what must stay, a policy keeps.
func (v PoolValidator) ValidateDelete(context.Context, *infrav1.NstanceMachinePool) (admission.Warnings, error) {
	return nil, nil
}

func (v PoolValidator) validate(ctx context.Context, pool, old *infrav1.NstanceMachinePool) (admission.Warnings, error) {
	var others infrav1.NstanceMachinePoolList
	listErr := v.Reader.List(ctx, &others, client.InNamespace(pool.Namespace))
	known, knowErr := v.known(ctx, pool.Namespace)
	warnings, errs := CheckPool(pool, old, others.Items, known)
	if listErr != nil { // trouble of ours is no reason to refuse: the controller looks again
		warnings = append(warnings, fmt.Sprintf("other pools were not looked at: %v", listErr))
	}
	if knowErr != nil {
		warnings = append(warnings, fmt.Sprintf("what the shards have was not looked at: %v", knowErr))
	}
	if len(errs) > 0 {
		kind := infrav1.GroupVersion.WithKind(infrav1.KindMachinePool).GroupKind()
		return warnings, apierrors.NewInvalid(kind, pool.Name, errs)
	}
	return warnings, nil
}
