package machinepool

import (
	"slices"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// groupSettings are the settings that a server's configuration decides while a group is static.
type groupSettings struct {
	template, subnets string
	loadBalancers     []string
}

// overriddenBy returns the settings with the template of used, and with its other values where these are set.
func (s groupSettings) overriddenBy(used groupSettings) groupSettings {
	s.template = used.template
	if s.subnets != "" {
		s.subnets = used.subnets
	}
	if len(s.loadBalancers) > 0 {
		s.loadBalancers = used.loadBalancers
	}
	return s
}

// settings are those that the shard group of a shard is written with. While the group is static on
// another shard the spec is locked, and a shard on which it is not static, or no longer,
// keeps what it uses.
func (st state) settings(name string, own groupSettings) groupSettings {
	group := st.shards[name].group
	if group.GetTemplate() == "" || group.GetDeleting() || !slices.ContainsFunc(st.pool.Spec.Shards, st.static) {
		return own
	}
	return own.overriddenBy(settingsOf(group))
}

// specSettings are those of the spec of a pool.
func specSettings(spec infrav1.NstanceMachinePoolSpec) groupSettings {
	return groupSettings{spec.Template, spec.Subnets, spec.LoadBalancers}
}

// differingFields names the fields in which the settings of a pool say something else than others;
// what the pool leaves out says nothing.
func (s groupSettings) differingFields(from groupSettings) []string {
	var fields []string
	if s.template != "" && s.template != from.template {
		fields = append(fields, "template")
	}
	if s.subnets != "" && s.subnets != from.subnets {
		fields = append(fields, "subnets")
	}
	if len(s.loadBalancers) > 0 && !slices.Equal(slices.Sorted(slices.Values(s.loadBalancers)), slices.Sorted(slices.Values(from.loadBalancers))) {
		fields = append(fields, "loadBalancers")
	}
	return fields
}

// settingsToWrite returns the settings that shard groups are written with, the template that the pool
// remembers, and what its spec takes over; nil: nothing.
//
// While a group is static its servers' configuration says them, and what the pool says is
// ignored. When it stops being static, the pool takes over what the servers use, before its
// own words are sent again: that a group leaves the configuration changes no machine. The
// API server locks these fields as long as the status says static. So it is written down that
// the pool was static, and the spec is written when the status has changed.
func (st state) settingsToWrite() (own groupSettings, kept string, takeOver *takeover) {
	kept = st.pool.Annotations[infrav1.AnnotationReleasedTemplate]
	own, used := specSettings(st.pool.Spec), st.serverSettings()
	switch {
	case slices.ContainsFunc(st.pool.Spec.Shards, st.static):
		kept = used.template
	case !st.pool.Status.IsStatic && kept == "", used.template == "":
		kept = ""
	default:
		fields := own.differingFields(used)
		if own.template == "" {
			fields = append(fields, "template")
		}
		own = own.overriddenBy(used)
		kept = used.template
		if !st.pool.Status.IsStatic {
			takeOver, kept = &takeover{own, fields}, ""
		}
	}
	return own, kept, takeOver
}

// takeover are the settings that a pool takes over, and the fields of its spec that change.
type takeover struct {
	groupSettings
	fields []string
}

// serverSettings are the settings that the servers use, of the first shard that has the group.
func (st state) serverSettings() groupSettings {
	for _, name := range st.pool.Spec.Shards {
		if group := st.shards[name].group; group.GetTemplate() != "" {
			return settingsOf(group)
		}
	}
	for _, name := range st.pool.Spec.Shards {
		if shardGroup := st.shardGroups[name]; shardGroup != nil && shardGroup.Status.Config != nil && shardGroup.Status.Config.Template != "" {
			c := shardGroup.Status.Config
			return groupSettings{c.Template, c.Subnets, st.pool.Spec.LoadBalancers}
		}
	}
	return groupSettings{}
}

// settingsOf are those that a server uses.
func settingsOf(group *nstancev1.GroupStatus) groupSettings {
	return groupSettings{group.GetTemplate(), group.GetSubnetPool(), group.GetLoadBalancers()}
}
