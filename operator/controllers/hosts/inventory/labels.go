package inventory

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Labels are those that the HostMachine of an instance has: of its own, and of its group's Nodes under
// their own names. unfit are the names of those whose names or values no label can have.
func Labels(shard string, in *nstancev1.InstanceStatus, g *nstancev1.GroupStatus) (own, ofGroup map[string]string, unfit []string) {
	own = map[string]string{
		hostsv1.LabelGroup: in.GetGroup(), hostsv1.LabelShard: shard, hostsv1.LabelTenant: in.GetTenant(), hostsv1.LabelTemplate: in.GetTemplate(),
		hostsv1.LabelKind: kindOf(in.GetInstanceId()), hostsv1.LabelArch: in.GetMachine().GetArch(), hostsv1.LabelInstanceType: in.GetInstanceType(),
		hostsv1.LabelZone: g.GetZone(), hostsv1.LabelOnDemand: strconv.FormatBool(in.GetOnDemand()),
	}
	ofGroup = map[string]string{}
	for name, value := range g.GetNode().GetLabels() {
		if !strings.HasPrefix(name, hostsv1.Prefix) {
			ofGroup[name] = value
		}
	}
	for _, labels := range []map[string]string{own, ofGroup} {
		for name, value := range labels {
			switch {
			case len(validation.IsQualifiedName(name)) > 0, len(validation.IsValidLabelValue(value)) > 0:
				unfit = append(unfit, name)
				delete(labels, name)
			}
		}
	}
	maps.DeleteFunc(own, func(_, value string) bool { return value == "" })
	slices.Sort(unfit)
	return own, ofGroup, unfit
}

// kindOf is the kind that an instance's id begins with.
func kindOf(id string) string { return id[:min(len(id), 3)] }

// ownLabels are the names of all labels that Labels gives by itself.
var ownLabels = []string{
	hostsv1.LabelGroup, hostsv1.LabelShard, hostsv1.LabelTenant, hostsv1.LabelTemplate, hostsv1.LabelKind, hostsv1.LabelArch,
	hostsv1.LabelInstanceType, hostsv1.LabelZone, hostsv1.LabelOnDemand,
}

// relabel returns the changes by which an object gets the labels, nil for what goes: what the operator had set and
// does not any more. Others are in no change.
func relabel(m *hostsv1.HostMachine, own, ofGroup map[string]string) (labels map[string]*string, remembered string) {
	labels = map[string]*string{}
	had := slices.Concat(ownLabels, split(m.Annotations[hostsv1.AnnotationNodeLabels]))
	for _, name := range had {
		if _, is := m.Labels[name]; is {
			labels[name] = nil
		}
	}
	for _, wanted := range []map[string]string{ofGroup, own} {
		for name, value := range wanted {
			labels[name] = &value
			if is, ok := m.Labels[name]; ok && is == value {
				delete(labels, name)
			}
		}
	}
	return labels, strings.Join(slices.Sorted(maps.Keys(ofGroup)), ",")
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}
