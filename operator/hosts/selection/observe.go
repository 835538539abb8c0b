package selection

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Observe returns configurations with the versions that they own. A selector that cannot be read
// matches nothing.
func Observe(configurations []hostsv1.MachineConfiguration, versions []hostsv1.MachineConfigurationVersion) []Configuration {
	all := make([]Configuration, 0, len(configurations))
	for i := range configurations {
		c := &configurations[i]
		parsed, _ := Parse(c.Spec.MachineSelector)
		all = append(all, Configuration{
			Name: c.Name, UID: c.UID, Selector: parsed, Priority: c.Spec.Priority, Paused: c.Spec.Paused,
			Deleting: !c.DeletionTimestamp.IsZero(), Versions: versionsOf(c, versions),
		})
	}
	return all
}

// versionsOf are the versions that a configuration owns. One whose creation is not recorded yet
// has no hash, and cannot be assigned.
func versionsOf(c *hostsv1.MachineConfiguration, all []hostsv1.MachineConfigurationVersion) []Version {
	var own []Version
	for i := range all {
		v := &all[i]
		if !metav1.IsControlledBy(v, c) || !v.DeletionTimestamp.IsZero() || v.Status.Hash == "" {
			continue
		}
		own = append(own, Version{
			Number: v.Spec.Version, Deployed: v.Status.Deployed, Hash: v.Status.Hash, Kubernetes: v.Spec.Template.Kubernetes.Version,
			PullSecrets: v.Spec.Template.PullSecrets(),
			Bad:         meta.IsStatusConditionFalse(v.Status.Conditions, hostsv1.ConditionHealthy),
		})
	}
	return own
}
