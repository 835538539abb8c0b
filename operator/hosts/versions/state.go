package versions

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// State is what a plan follows from.
type State struct {
	// Template that the configuration has, by its hash.
	Template hostsv1.SHA256
	// Latest is the highest number that was ever reserved.
	Latest int32
	// Pending is a number that was reserved and not cleared; 0: none.
	Pending int32
	// HistoryLimit is how many of the highest numbers are kept.
	HistoryLimit int
	// Versions are those whose names are of the configuration, in any order.
	Versions []Version
	// Referenced are the numbers that machines refer to.
	Referenced map[int32]bool
}

// Version is a version that is stored.
type Version struct {
	Number int32
	// Foreign: another configuration owns it, one of the same name that was deleted, or it has
	// no owner. Nothing is done to it.
	Foreign bool
	// Recorded: it was created while its number was reserved, and may be locked.
	Recorded bool
	// Deployed: it is locked.
	Deployed bool
	// Deleting: its deletion has begun.
	Deleting bool
	// Template that it holds, by its hash.
	Template hostsv1.SHA256
}

// Name is the name of a version.
func Name(configuration string, number int32) string {
	return configuration + "-v" + strconv.Itoa(int(number))
}

// Number returns the number in the name of a version of a configuration.
func Number(configuration, name string) (int32, bool) {
	text, ours := strings.CutPrefix(name, configuration+"-v")
	number, err := strconv.ParseInt(text, 10, 32)
	if !ours || err != nil || number < 1 || strconv.FormatInt(number, 10) != text {
		return 0, false
	}
	return int32(number), true
}

// Observe returns the state of a configuration. Versions of other names are left out.
func Observe(c *hostsv1.MachineConfiguration, all []hostsv1.MachineConfigurationVersion, referenced map[int32]bool) State {
	s := State{
		Template: Hash(&c.Spec.Template), Latest: c.Status.LatestVersion, HistoryLimit: 10, Referenced: referenced,
	}
	if c.Status.PendingVersion != nil {
		s.Pending = c.Status.PendingVersion.Number
	}
	if c.Spec.RevisionHistoryLimit != nil {
		s.HistoryLimit = int(*c.Spec.RevisionHistoryLimit)
	}
	for i := range all {
		v := &all[i]
		number, named := Number(c.Name, v.Name)
		if !named {
			continue
		}
		s.Versions = append(s.Versions, Version{
			Number: number, Foreign: !metav1.IsControlledBy(v, c), Recorded: Recorded(v), Deployed: v.Status.Deployed,
			Deleting: !v.DeletionTimestamp.IsZero(), Template: Hash(&v.Spec.Template),
		})
	}
	return s
}

// Recorded is whether a version was created while its number was reserved: a machine may be built from
// it. A locked one always is.
func Recorded(v *hostsv1.MachineConfigurationVersion) bool {
	return v.Status.Hash != "" || v.Status.Deployed
}

// References returns the numbers of a configuration that machines refer to: by the reference
// that a user wrote, or because the version was assigned, runs, or lies in the other slot, or because
// a rollout has begun to bring the machine to it.
// What a machine would be built from is no reference.
func References(configuration string, machines []hostsv1.HostMachine) map[int32]bool {
	all := map[int32]bool{}
	for i := range machines {
		for _, ref := range Of(&machines[i]) {
			if string(ref.Name) == configuration {
				all[ref.Version] = true
			}
		}
	}
	return all
}

// Of returns the versions that a machine refers to, each once.
func Of(m *hostsv1.HostMachine) []hostsv1.VersionReference {
	var all []hostsv1.VersionReference
	add := func(ref hostsv1.VersionReference) {
		same := func(other hostsv1.VersionReference) bool {
			return other.Name == ref.Name && other.Version == ref.Version
		}
		if !slices.ContainsFunc(all, same) {
			all = append(all, ref)
		}
	}
	if ref := m.Spec.ConfigurationRef; ref != nil && ref.Version != nil {
		add(hostsv1.VersionReference{Name: ref.Name, Version: *ref.Version})
	}
	if r := m.Status.Rollout; r != nil && r.Stage.Begun() {
		add(r.VersionReference)
	}
	if c := m.Status.Configuration; c != nil {
		if c.Assigned != nil {
			add(c.Assigned.VersionReference)
		}
		if c.Applied != nil {
			add(c.Applied.VersionReference)
		}
		if c.Previous != nil {
			add(*c.Previous)
		}
	}
	return all
}

// own are the versions of the configuration that stay, the highest number first.
func (s State) own() []Version {
	all := slices.DeleteFunc(slices.Clone(s.Versions), func(v Version) bool { return v.Foreign || v.Deleting || !v.Recorded })
	slices.SortFunc(all, func(a, b Version) int { return cmp.Compare(b.Number, a.Number) })
	return all
}

// find returns the version of a number, foreign or not.
func (s State) find(number int32) (Version, bool) {
	i := slices.IndexFunc(s.Versions, func(v Version) bool { return v.Number == number })
	if i < 0 {
		return Version{}, false
	}
	return s.Versions[i], true
}

// Summary is what the status says of the versions.
type Summary struct {
	Editable int32 // 0: none
	Deployed int32 // the highest one that is locked; 0: none
	// Synced: the newest version holds the template, and no number is reserved.
	Synced bool
	// Conflict is the reserved number whose name a foreign object has; 0: none.
	Conflict int32
}

// Summarize sums a state up.
func Summarize(s State) Summary {
	var sum Summary
	own := s.own()
	for _, v := range own {
		switch {
		case !v.Deployed && sum.Editable == 0:
			sum.Editable = v.Number
		case v.Deployed && sum.Deployed == 0:
			sum.Deployed = v.Number
		}
	}
	if v, there := s.find(s.Pending); there && v.Foreign {
		sum.Conflict = s.Pending
	}
	sum.Synced = s.Pending == 0 && len(own) > 0 && own[0].Template == s.Template
	return sum
}
