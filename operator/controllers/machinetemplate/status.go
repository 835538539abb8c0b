package machinetemplate

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi/capacity"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Shard is a configured shard, as far as the group of a template goes.
type Shard struct {
	Name string
	// Listed: all its groups are known, so one that is not among them is not there.
	Listed bool
	// Group is what it says of the group; nil: it is not known to have it.
	Group *nstancev1.GroupStatus
}

// has is whether machines of the group can be made there.
func (s Shard) has() bool { return s.Group != nil && !s.Group.GetDeleting() }

// Status returns what there is to say of a template. memoryShare is the share of a machine's
// memory that is left for Pods; zero means capacity.DefaultMemoryShare. As long as a shard
// has not said what it has, what was said of Nodes before stands.
func Status(t *infrav1.NstanceMachineTemplate, shards []Shard, memoryShare float64, now time.Time) infrav1.NstanceMachineTemplateStatus {
	settings := t.Spec.Template.Spec
	if settings.Shard != "" {
		shards = only(shards, settings.Shard)
	}
	offered := capacity.Pool{MemoryShare: memoryShare}
	known := true
	for _, s := range shards {
		known = known && (s.Listed || s.has())
		if s.has() {
			offered.Parts = append(offered.Parts, part(settings, s.Group))
		}
	}
	next := infrav1.NstanceMachineTemplateStatus{
		Capacity: t.Status.Capacity, NodeInfo: t.Status.NodeInfo, ObservedGeneration: t.Generation,
		Conditions: status.Next(t.Status.Conditions, []metav1.Condition{
			groupKnown(settings, shards), status.False(infrav1.ConditionPaused, infrav1.ReasonNotPaused, ""),
		}, t.Generation, now),
	}
	if known || next.Capacity == nil {
		offer := capacity.Of(offered)
		next.Capacity, next.NodeInfo = offer.Capacity, offer.NodeInfo
	}
	return next
}

// pausedStatus is the status as it stands, with nothing new but that the template is paused.
func pausedStatus(t *infrav1.NstanceMachineTemplate, now time.Time) infrav1.NstanceMachineTemplateStatus {
	next := *t.Status.DeepCopy()
	next.Conditions = status.With(next.Conditions,
		status.True(infrav1.ConditionPaused, infrav1.ReasonPaused, "the cluster or this template is paused"), t.Generation, now)
	return next
}

func only(shards []Shard, name string) []Shard {
	for _, s := range shards {
		if s.Name == name {
			return []Shard{s}
		}
	}
	return nil
}

// part is what one shard makes machines of the template from.
func part(settings infrav1.MachineSettings, g *nstancev1.GroupStatus) capacity.Part {
	p := capacity.PartOf(g)
	switch {
	case settings.Template != "" && settings.Template != p.Template:
		return capacity.Part{Zone: p.Zone, Region: p.Region, Template: settings.Template, InstanceType: settings.InstanceType}
	case settings.InstanceType != "" && settings.InstanceType != p.InstanceType:
		return capacity.Part{Arch: p.Arch, Zone: p.Zone, Region: p.Region, Template: p.Template, InstanceType: settings.InstanceType}
	}
	return p
}

// groupKnown says whether some shard has the group.
func groupKnown(settings infrav1.MachineSettings, shards []Shard) metav1.Condition {
	const known = infrav1.ConditionGroupKnown
	group := settings.GroupRef.Name
	if settings.Shard != "" && len(shards) == 0 {
		return status.False(known, infrav1.ReasonShardNotConfigured, fmt.Sprintf("shard %s is not in the operator's configuration", settings.Shard))
	}
	var have, silent []string
	for _, s := range shards {
		switch {
		case s.has():
			have = append(have, s.Name)
		case !s.Listed:
			silent = append(silent, s.Name)
		}
	}
	switch {
	case len(have) > 0:
		return status.True(known, infrav1.ReasonGroupFound, "on "+strings.Join(have, ", "))
	case len(silent) > 0:
		return status.Unknown(known, infrav1.ReasonWaitingForShards, fmt.Sprintf("waiting for %s to say whether they have group %s", strings.Join(silent, ", "), group))
	}
	return status.False(known, infrav1.ReasonGroupNotFound, fmt.Sprintf("no shard has group %s; make the group, or another template", group))
}
