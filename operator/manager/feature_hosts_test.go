package manager

import (
	"slices"
	"strings"
	"testing"

	"nstance.dev/operator/config"
)

// With host machines off the operator needs none of their kinds and no right on them.
func TestHostMachinesOffNeedNothing(t *testing.T) {
	needs := func(s config.Settings) (kinds []string, rights int) {
		for _, k := range kindsOf(featuresOf(s)) {
			if k.version.Group == hosts {
				kinds = append(kinds, k.String())
			}
		}
		for _, r := range Rights(s) {
			if r.Group == hosts || strings.HasPrefix(r.Resource, "validatingadmissionpolic") {
				rights++
			}
			if !s.Hosts && (r.Group == certificates || r.Where == NamespaceOfWorkload) {
				t.Errorf("off it needs to %v %s", r.Verbs, r.Resource)
			}
		}
		return kinds, rights
	}
	if kinds, rights := needs(config.Settings{}); len(kinds) > 0 || rights > 0 {
		t.Errorf("off it needs %v and %d rights", kinds, rights)
	}
	kinds, rights := needs(config.Settings{Hosts: true})
	if want := []string{"HostMachine", "MachineConfiguration", "MachineConfigurationVersion", "MachineOperation"}; !slices.Equal(kinds, want) || rights != 11 {
		t.Errorf("on it needs %v and %d rights", kinds, rights)
	}
}
