// Package selection decides which version of which MachineConfiguration a HostMachine would be
// built from if it were repaved now.
//
// [Choose] is pure: equal machines, configurations and versions give equal choices. What it
// chooses is desired, no more: nothing is locked, assigned or built by it.
//
// The order is: the configuration that the machine names; the one that selectors chose before
// and the machine was assigned to, which stays; the one with the highest priority whose
// selector matches, the first name by bytes among equals. Of a configuration that a machine
// joins by selector for the first time it takes the newest locked version, because nobody
// asked for changes to take effect on this machine; later, and where the machine names the
// configuration, the newest one, because deleting the Node asks for just that.
//
// A machine that a rollout has begun gets the version that it was begun for.
//
// It leaves to others where machines, configurations and versions come from, and what becomes
// of a choice.
package selection

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Configuration is a MachineConfiguration with its versions.
type Configuration struct {
	Name     string
	UID      types.UID
	Selector Selector
	Priority int32
	// Paused: machines stay at the version that they run.
	Paused bool
	// Deleting: it is being deleted, and counts as gone.
	Deleting bool
	// Versions that it owns and that are not being deleted, in any order.
	Versions []Version
}

// Version is a version of a configuration.
type Version struct {
	Number int32
	// Deployed: it is locked.
	Deployed bool
	// Bad: machines that were built from it did not become ready.
	Bad        bool
	Hash       hostsv1.SHA256
	Kubernetes string // version of the kubelet
	// PullSecrets are the Secrets that it takes.
	PullSecrets []string
}

// Cluster is what else a choice depends on.
type Cluster struct {
	Configurations []Configuration
	// APIServer is the version of the API server that Nodes join; empty: not known, and no
	// version is kept back for it.
	APIServer string
	// SecretMissing reports whether a Secret does not exist; nil: all exist.
	SecretMissing func(name string) bool
}

// Choice is what a machine would be built from, or why it waits.
type Choice struct {
	// Source says how the configuration was chosen; empty: none was.
	Source hostsv1.ConfigurationSource
	// Desired is the version; nil: the machine waits.
	Desired *hostsv1.VersionReference
	// Reason and Message say why it waits, or how it was chosen.
	Reason, Message string
	// Waiting is the newest version, if the configuration is paused and the choice is an older
	// one; 0: none waits.
	Waiting int32
	// Configuration that was chosen, also where none of its versions can be used.
	Configuration string
}

// Choose returns what a machine would be built from. A machine that is being deleted keeps
// what its status says: the caller leaves it alone.
func Choose(m *hostsv1.HostMachine, in Cluster) Choice {
	if ref := m.Spec.ConfigurationRef; ref != nil {
		return explicit(m, ref, in)
	}
	c, sticky := chosenBefore(m, in.Configurations)
	if !sticky {
		matching := Matching(m, in.Configurations)
		if len(matching) == 0 {
			return Choice{Reason: hostsv1.ReasonNoMatch, Message: "no MachineConfiguration has a selector that matches; set spec.configurationRef, or label the machine"}
		}
		c = matching[0]
	}
	choice := Choice{Source: hostsv1.SourceSelector, Configuration: c.Name}
	switch v := rolled(m, c); {
	case v != nil:
		return use(choice, c, v, in, howRolled)
	case c.Paused:
		return paused(choice, m, c, in)
	case sticky:
		return use(choice, c, newestNotBad(c), in, "its newest version")
	default:
		return use(choice, c, first(c), in, "its newest version that is locked")
	}
}

// Matching returns the configurations whose selectors match a machine, in the order in which
// they are chosen. Those that are being deleted are left out.
func Matching(m *hostsv1.HostMachine, all []Configuration) []Configuration {
	matching := slices.DeleteFunc(slices.Clone(all), func(c Configuration) bool { return c.Deleting || !c.Selector.Matches(m) })
	slices.SortFunc(matching, func(a, b Configuration) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
	})
	return matching
}

// StaysWith returns a version of the configuration that a machine stays with until that is gone: the one that selectors
// chose for it before it was assigned. False: it names one, or is to be chosen for.
func StaysWith(m *hostsv1.HostMachine) (ref hostsv1.VersionReference, stays bool) {
	status := m.Status.Configuration
	_, again := m.Annotations[hostsv1.AnnotationReselect]
	if m.Spec.ConfigurationRef != nil || status == nil || status.Source != hostsv1.SourceSelector || status.Assigned == nil || again {
		return ref, false
	}
	if status.Desired == nil { // its version cannot be used at present
		return status.Assigned.VersionReference, true
	}
	return *status.Desired, true
}

// chosenBefore returns the configuration that a machine stays with, if it is there.
func chosenBefore(m *hostsv1.HostMachine, all []Configuration) (Configuration, bool) {
	ref, stays := StaysWith(m)
	if !stays {
		return Configuration{}, false
	}
	c, there := find(all, string(ref.Name))
	if !there || ref.UID != "" && ref.UID != string(c.UID) {
		return Configuration{}, false
	}
	return c, true
}

func find(all []Configuration, name string) (Configuration, bool) {
	i := slices.IndexFunc(all, func(c Configuration) bool { return c.Name == name && !c.Deleting })
	if i < 0 {
		return Configuration{}, false
	}
	return all[i], true
}

// explicit is the choice of a machine that names its configuration.
func explicit(m *hostsv1.HostMachine, ref *hostsv1.ConfigurationReference, in Cluster) Choice {
	choice := Choice{Source: hostsv1.SourceExplicit, Configuration: string(ref.Name)}
	c, there := find(in.Configurations, string(ref.Name))
	if !there {
		choice.Reason = hostsv1.ReasonConfigurationNotFound
		choice.Message = fmt.Sprintf("spec.configurationRef names MachineConfiguration %s, which does not exist; create it, or name another one", ref.Name)
		return choice
	}
	switch {
	case ref.Version != nil:
		v, there := c.version(*ref.Version)
		if !there {
			choice.Reason = hostsv1.ReasonVersionNotFound
			choice.Message = fmt.Sprintf("spec.configurationRef names version %d of MachineConfiguration %s, which does not exist; %s", *ref.Version, c.Name, c.existing())
			return choice
		}
		return use(choice, c, &v, in, "the version that spec.configurationRef names")
	case rolled(m, c) != nil:
		return use(choice, c, rolled(m, c), in, howRolled)
	case c.Paused:
		return paused(choice, m, c, in)
	default:
		return use(choice, c, c.newest(), in, "its newest version")
	}
}

// howRolled says that a rollout chose a version.
const howRolled = "the version that its rollout has begun to bring it to"

// rolled returns the version that a rollout of a configuration has begun to bring a machine to: it stays,
// whatever versions have come since. Nil: none has.
func rolled(m *hostsv1.HostMachine, c Configuration) *Version {
	r := m.Status.Rollout
	if r == nil || !r.Stage.Begun() || string(r.Name) != c.Name || r.UID != "" && r.UID != string(c.UID) {
		return nil
	}
	if v, there := c.version(r.Version); there {
		return &v
	}
	return nil
}

// paused is the choice while a configuration is paused: the version that the machine runs, and
// for a machine that runs none the newest one that is locked.
func paused(choice Choice, m *hostsv1.HostMachine, c Configuration, in Cluster) Choice {
	v := runs(m, c)
	how := "the version that it runs, because the configuration is paused"
	if v == nil {
		v = c.latestLocked(choice.Source == hostsv1.SourceSelector)
		how = "its newest version that is locked, because the configuration is paused"
	}
	if v == nil {
		choice.Reason = hostsv1.ReasonConfigurationPaused
		choice.Message = fmt.Sprintf("MachineConfiguration %s is paused, and no version of it is locked; set spec.paused to false", c.Name)
		return choice
	}
	choice = use(choice, c, v, in, how)
	if newest := c.newest(); choice.Desired != nil && newest.Number > v.Number {
		choice.Waiting = newest.Number
	}
	return choice
}

// runs returns the version of a configuration that a machine runs; nil: none.
func runs(m *hostsv1.HostMachine, c Configuration) *Version {
	status := m.Status.Configuration
	if status == nil || status.Applied == nil || string(status.Applied.Name) != c.Name {
		return nil
	}
	if uid := status.Applied.UID; uid != "" && uid != string(c.UID) {
		return nil
	}
	if v, there := c.version(status.Applied.Version); there {
		return &v
	}
	return nil
}

// use is the choice of a version; nil: the configuration has none.
func use(choice Choice, c Configuration, v *Version, in Cluster, how string) Choice {
	if v == nil {
		choice.Reason = hostsv1.ReasonVersionNotFound
		choice.Message = fmt.Sprintf("MachineConfiguration %s has no version yet; its condition %s says why", c.Name, hostsv1.ConditionVersionsSynced)
		return choice
	}
	if skewed := Skew(v.Kubernetes, in.APIServer); skewed != "" {
		choice.Reason = hostsv1.ReasonVersionSkew
		choice.Message = fmt.Sprintf("version %d of MachineConfiguration %s has Kubernetes %s, %s; set kubernetes.version in the template, or name another version", v.Number, c.Name, v.Kubernetes, skewed)
		return choice
	}
	for _, secret := range v.PullSecrets {
		if in.SecretMissing != nil && in.SecretMissing(secret) {
			choice.Reason = hostsv1.ReasonSecretNotFound
			choice.Message = fmt.Sprintf("version %d of MachineConfiguration %s pulls images with Secret %s, which does not exist in the operator's namespace; create it, of type kubernetes.io/dockerconfigjson", v.Number, c.Name, secret)
			return choice
		}
	}
	choice.Desired = &hostsv1.VersionReference{
		Name: hostsv1.ConfigurationName(c.Name), Version: v.Number, UID: string(c.UID), Hash: v.Hash,
	}
	choice.Reason = hostsv1.ReasonResolved
	choice.Message = fmt.Sprintf("MachineConfiguration %s, version %d: %s", c.Name, v.Number, how)
	return choice
}

// sorted are the versions, the newest first.
func (c Configuration) sorted() []Version {
	all := slices.Clone(c.Versions)
	slices.SortFunc(all, func(a, b Version) int { return cmp.Compare(b.Number, a.Number) })
	return all
}

func (c Configuration) version(number int32) (Version, bool) {
	i := slices.IndexFunc(c.Versions, func(v Version) bool { return v.Number == number })
	if i < 0 {
		return Version{}, false
	}
	return c.Versions[i], true
}

// newest returns the highest version, locked or not; nil: there is none.
func (c Configuration) newest() *Version {
	if all := c.sorted(); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// latestLocked returns the highest version that is locked, and with good one that is not known
// to be bad; nil: there is none.
func (c Configuration) latestLocked(good bool) *Version {
	for _, v := range c.sorted() {
		if v.Deployed && !(good && v.Bad) {
			return &v
		}
	}
	return nil
}

// first returns the version that a machine joins by selector with: the newest locked one that
// is not known to be bad, else the one that is not locked, else the newest one.
func first(c Configuration) *Version {
	if v := c.latestLocked(true); v != nil {
		return v
	}
	return c.newest()
}

// newestNotBad returns the newest version that is not known to be bad; if all are, the newest.
func newestNotBad(c Configuration) *Version {
	for _, v := range c.sorted() {
		if !v.Deployed || !v.Bad {
			return &v
		}
	}
	return c.newest()
}

// existing says which versions there are.
func (c Configuration) existing() string {
	all := c.sorted()
	if len(all) == 0 {
		return "it has none yet"
	}
	return fmt.Sprintf("it has %d, the newest is %d", len(all), all[0].Number)
}
