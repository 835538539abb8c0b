package machinepool

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// locked are the settings of a pool that a server's configuration has for a static group.
type locked struct {
	template, subnets string
	loadBalancers     []string
}

// following returns the settings with what others say in the place of what these do.
func (l locked) following(used locked) locked {
	l.template = used.template
	if l.subnets != "" {
		l.subnets = used.subnets
	}
	if len(l.loadBalancers) > 0 {
		l.loadBalancers = used.loadBalancers
	}
	return l
}

// settings are those that the part of a shard is written with. While the group is static on
// another shard the spec is locked, and a shard on which it is not static, or not any more,
// keeps what it uses.
func (d *draft) settings(name string, own locked) locked {
	group := d.shards[name].group
	if group.GetTemplate() == "" || group.GetDeleting() || !slices.ContainsFunc(d.pool.Spec.Shards, d.static) {
		return own
	}
	return own.following(usedBy(group))
}

func lockedOf(spec infrav1.NstanceMachinePoolSpec) locked {
	return locked{spec.Template, spec.Subnets, spec.LoadBalancers}
}

// differs names the fields in which the settings of a pool say something else than others;
// what the pool leaves out says nothing.
func (l locked) differs(from locked) []string {
	var fields []string
	if l.template != "" && l.template != from.template {
		fields = append(fields, "template")
	}
	if l.subnets != "" && l.subnets != from.subnets {
		fields = append(fields, "subnets")
	}
	if len(l.loadBalancers) > 0 && !slices.Equal(slices.Sorted(slices.Values(l.loadBalancers)), slices.Sorted(slices.Values(from.loadBalancers))) {
		fields = append(fields, "loadBalancers")
	}
	return fields
}

// release is called for each plan and returns the settings that parts are written with.
//
// While a group is static its servers' configuration says them, and what the pool says is
// ignored. When it stops being static, the pool takes over what the servers use, before its
// own words are sent again: that a group leaves the configuration changes no machine. The
// API server locks these fields as long as the status says static. So it is written down that
// the pool was static, and the spec is written when the status has changed.
func (d *draft) release() locked {
	kept := d.pool.Annotations[infrav1.AnnotationReleasedTemplate]
	own, used := lockedOf(d.pool.Spec), d.served()
	switch {
	case slices.ContainsFunc(d.pool.Spec.Shards, d.static):
		kept = used.template
	case !d.pool.Status.IsStatic && kept == "", used.template == "":
		kept = ""
	default:
		fields := own.differs(used)
		if own.template == "" {
			fields = append(fields, "template")
		}
		own = own.following(used)
		kept = used.template
		if !d.pool.Status.IsStatic {
			d.plan.release, kept = &released{own, fields}, ""
		}
	}
	d.plan.memory[infrav1.AnnotationReleasedTemplate] = kept
	return own
}

// released are the settings that a pool takes over, and the fields of its spec that change.
type released struct {
	locked
	fields []string
}

// served are the settings that the servers use, of the first shard that has the group.
func (st state) served() locked {
	for _, name := range st.pool.Spec.Shards {
		if group := st.shards[name].group; group.GetTemplate() != "" {
			return usedBy(group)
		}
	}
	for _, name := range st.pool.Spec.Shards {
		if part := st.parts[name]; part != nil && part.Status.Config != nil && part.Status.Config.Template != "" {
			c := part.Status.Config
			return locked{c.Template, c.Subnets, st.pool.Spec.LoadBalancers}
		}
	}
	return locked{}
}

func usedBy(group *nstancev1.GroupStatus) locked {
	return locked{group.GetTemplate(), group.GetSubnetPool(), group.GetLoadBalancers()}
}

// ignored says which fields of the spec mean nothing, because a server's configuration has
// the group and says something else.
func (st state) ignored() metav1.Condition {
	var found []string
	for _, name := range st.pool.Spec.Shards {
		group := st.shards[name].group
		if !st.static(name) || group == nil {
			continue
		}
		for _, field := range lockedOf(st.pool.Spec).differs(usedBy(group)) {
			if text := "spec." + field; !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	if len(found) == 0 {
		return status.False(infrav1.ConditionSpecIgnored, infrav1.ReasonNotIgnored, "")
	}
	return status.True(infrav1.ConditionSpecIgnored, infrav1.ReasonStaticGroup, strings.Join(found, ", ")+
		" ignored: the group is static, and the server's configuration says something else; remove the fields, or change that configuration")
}
