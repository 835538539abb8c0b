package pavesim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/transition"
	"nstance.dev/e2e/sim/objects"
	"nstance.dev/e2e/sim/pavesim/cluster"
	"nstance.dev/e2e/sim/pavesim/machine"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
)

// oracle checks each write, each step of a paver, and what runs.
type oracle struct {
	w     *world
	hosts map[string]*record
	// approved are the certificates of an epoch of a machine, and counted those that were counted for one.
	approved map[string]int
	counted  map[types.UID]string
	// boots are those that a Node ever said that it runs in.
	boots map[types.UID]map[string]bool
	// epochs are those that are stored at the shard, by key.
	epochs map[string]int64
	missed map[*process]map[string]loss  // the Nodes that a process knows to be gone, by machine
	freed  time.Time                     // when a user last released the brake
	begun  map[*process]map[string]int64 // the epochs that a process has begun
	// rolled are the machines that a process has begun for a rollout, or ended; empty are the Nodes that no Pods are
	// left on; resumed is when a user last had a rollout go on.
	rolled  map[*process]map[string]bool
	empty   map[types.UID]bool
	resumed metav1.Time
	operated
}

// record is what is remembered of a host.
type record struct {
	content map[int64]string // that was assigned, by epoch, with the machine that it is for
	epoch   int64            // of the journal at the last step
	good    journal.Slot     // that last held the Node which its machine had
	retired journal.Slot     // that was stopped for another one, and not booted since
	split   bool             // both slots ran at the last look
	lost    bool             // its journal was lost since its Node joined last
	floor   int64            // of the reset that its paver has carried out since it started; 0: none
}

func newOracle(w *world) *oracle {
	return &oracle{
		w: w, hosts: map[string]*record{}, approved: map[string]int{}, epochs: map[string]int64{}, missed: map[*process]map[string]loss{},
		begun: map[*process]map[string]int64{}, rolled: map[*process]map[string]bool{}, empty: map[types.UID]bool{}, operated: newOperated(), counted: map[types.UID]string{}, boots: map[types.UID]map[string]bool{},
	}
}

func (o *oracle) of(name string) *record {
	if o.hosts[name] == nil {
		o.hosts[name] = &record{content: map[int64]string{}}
	}
	return o.hosts[name]
}

// lost notes that the journal of a host is lost: whatever runs there may be killed. remade notes that
// its HostMachine is another one, and reset that the host is as it was at first.
func (o *oracle) lost(h *host) {
	o.of(h.name).lost, o.of(h.name).good, o.of(h.name).retired = true, journal.None, journal.None
}

func (o *oracle) remade(h *host) { o.of(h.name).good = journal.None }

func (o *oracle) reset(h *host) {
	o.of(h.name).good, o.of(h.name).retired, o.of(h.name).epoch = journal.None, journal.None, 0
}

// started notes that a paver starts, which is told again what counts.
func (o *oracle) started(h *host) { o.of(h.name).floor = 0 }

// ended forgets what was known of a process.
func (o *oracle) ended(p *process) {
	delete(o.missed, p)
	delete(o.begun, p)
	delete(o.rolled, p)
}

// operator is whether a process wrote.
func operator(by string) bool { return by == "a" || by == "b" }

// changed looks at each change of an object.
func (o *oracle) changed(c objects.Change) {
	if text, err := json.Marshal(c.After); err != nil || bytes.Contains(text, []byte(cluster.Marked)) {
		o.w.violate("M43", "%s holds a credential (%v)", c.Object().GetName(), err)
	}
	switch of := c.Object().(type) {
	case *hostsv1.HostMachine:
		before, _ := c.Before.(*hostsv1.HostMachine)
		after, _ := c.After.(*hostsv1.HostMachine)
		if before != nil && after != nil && before.UID == after.UID && operator(c.By) {
			o.machine(c.By, before, after)
		}
	case *hostsv1.MachineOperation:
		before, _ := c.Before.(*hostsv1.MachineOperation)
		after, _ := c.After.(*hostsv1.MachineOperation)
		o.operation(c.By, before, after)
	case *hostsv1.MachineConfiguration:
		if _, asked := of.Annotations[hostsv1.AnnotationResume]; asked {
			o.resumed = cluster.Now()
		}
		if _, asked := of.Annotations[hostsv1.AnnotationReleaseBrake]; asked {
			o.freed = time.Now()
		}
	case *corev1.Node:
		if c.After == nil && operator(c.By) {
			o.deleted(of)
		}
		if o.boots[of.UID] == nil {
			o.boots[of.UID] = map[string]bool{}
		}
		o.boots[of.UID][of.Status.NodeInfo.BootID] = true
	case *certificatesv1.CertificateSigningRequest:
		before, _ := c.Before.(*certificatesv1.CertificateSigningRequest)
		if before != nil && c.After != nil && settled(before, true) == "" && settled(of, true) == certificatesv1.CertificateApproved {
			o.certificate(of)
		}
	}
}

func epochOf(m *hostsv1.HostMachine) int64 {
	if c := m.Status.Configuration; c != nil && c.Assigned != nil {
		return c.Assigned.Epoch
	}
	return 0
}

func uidOf(m *hostsv1.HostMachine) string {
	if m.Status.NodeRef == nil {
		return ""
	}
	return m.Status.NodeRef.UID
}

// machine checks what a process writes of a machine.
func (o *oracle) machine(by string, before, after *hostsv1.HostMachine) {
	o.count(before, after)
	o.rollingOut(by, before, after)
	was, is := epochOf(before), epochOf(after)
	node, there := objects.Find[*corev1.Node](o.w.api.Store, after.NodeName())
	if uid := uidOf(after); uid != "" && uid != uidOf(before) {
		o.joined(after, node, there)
	}
	switch {
	case is < was:
		o.w.violate("M40", "the epoch of %s falls from %d to %d", after.Name, was, is)
	case is == was:
		return
	}
	if after.Status.Repave.Mode != hostsv1.ModeReset {
		o.of(after.Name).content[is] = fmt.Sprintf("%s for %s", after.Status.Configuration.Assigned.Hash, after.UID)
	}
	o.w.notef("%s: epoch %d of %s: %s, %s", by, is, after.Name, after.Status.Repave.Mode, after.Status.Repave.Reason)
	switch reason := after.Status.Repave.Reason; reason {
	case lifecycle.ReasonNodeDeleted, lifecycle.ReasonNodeReplaced:
		if there && string(node.UID) == uidOf(before) {
			o.w.violate("M52", "%s is to be repaved, and its Node %s is there", after.Name, node.UID)
		}
		if before.Spec.Paused || !before.DeletionTimestamp.IsZero() {
			o.w.violate("M53", "%s is to be repaved, and is paused or being deleted", after.Name)
		}
		if p := o.w.processes[by]; p != nil {
			o.brake(p, after)
			if o.begun[p] == nil {
				o.begun[p] = map[string]int64{}
			}
			o.begun[p][after.Name] = is
		}
	case lifecycle.ReasonDeleting, lifecycle.ReasonRecovered:
	default:
		if before.Spec.Paused {
			o.w.violate("M53", "%s is told to build (%s), and is paused", after.Name, reason)
		}
	}
}

// joined checks that a Node is taken for joined which runs what was assigned, in the boot that runs (M46).
func (o *oracle) joined(m *hostsv1.HostMachine, node *corev1.Node, there bool) {
	for _, slot := range m.Status.Slots {
		if slot.State == hostsv1.SlotRunning && !o.boots[types.UID(uidOf(m))][slot.BootID] {
			o.w.violate("M46", "Node %s is taken for that of %s, which runs %s, and never was in that", uidOf(m), m.Name, slot.BootID)
		}
	}
	if !there || string(node.UID) != uidOf(m) {
		return // it has gone since it was read, which is missed next
	}
	for _, h := range o.w.hosts {
		for _, r := range h.Runs() {
			if h.name == m.Name && r.Boot == node.Status.NodeInfo.BootID {
				o.of(h.name).good = r.Slot
				// One that the journal does not know yet is killed all the same: it was built before the loss.
				if j, up := h.Known(); up && (j.Active == r.Slot || j.Transition != nil && j.Transition.To == r.Slot) {
					o.of(h.name).lost = false
				}
			}
		}
	}
}

// deleted checks that the operator deletes no Node that its machine has (M6, M50).
func (o *oracle) deleted(n *corev1.Node) {
	m, there := objects.Find[*hostsv1.HostMachine](o.w.api.Store, n.Name)
	if there && m.DeletionTimestamp.IsZero() && uidOf(m) == string(n.UID) && !o.rolledOut(m, n) {
		o.w.violate("M50", "the operator deletes Node %s, which is the one that %s has", n.UID, m.Name)
	}
}

// certificate checks a certificate that is approved (M43): for the Node of the machine whose credential
// it was asked for with, and three times at most in one epoch.
func (o *oracle) certificate(c *certificatesv1.CertificateSigningRequest) {
	secret, _ := o.w.api.Bound(c.Spec.Extra["authentication.kubernetes.io/credential-id"][0])
	for _, m := range objects.All[*hostsv1.HostMachine](o.w.api.Store) {
		if "hm-"+m.Name != secret {
			continue
		}
		if !bytes.Equal(c.Spec.Request, requestFor(m.NodeName())) {
			o.w.violate("M43", "%s is approved, which is for another Node than that of %s", c.Name, m.Name)
		}
	}
	epoch, counted := o.counted[c.UID]
	if !counted {
		o.w.violate("M43", "%s is approved, and counted for no machine", c.Name)
	}
	if o.approved[epoch]++; o.approved[epoch] > 3 {
		o.w.violate("M43", "%d certificates are approved for %s", o.approved[epoch], epoch)
	}
}

// booted checks what a machine has to join with that was started and has no certificate yet: a credential whose life
// is not over (M43).
func (o *oracle) booted(h *host, r machine.Running) {
	id := tokenID(h.Read(r.Slot, bootstrap))
	if h.Read(r.Slot, certificate) == "" && o.w.api.Expired(id) {
		o.w.violate("M43", "%s: slot %s is started with credential %s, whose life is over", h.name, r.Slot, id)
	}
}

// count checks a certificate that is counted before it is approved: it was asked for with the credential
// that was made last, for the epoch that is assigned.
func (o *oracle) count(before, after *hostsv1.HostMachine) {
	s := after.Status.Repave
	if s == nil || s.Certificates == nil || before.Status.Repave != nil && equality.Semantic.DeepEqual(before.Status.Repave.Certificates, s.Certificates) {
		return
	}
	o.counted[types.UID(s.Certificates.LastRequest)] = fmt.Sprintf("epoch %d of %s", s.Certificates.Epoch, after.UID)
	for _, c := range objects.All[*certificatesv1.CertificateSigningRequest](o.w.api.Store) {
		if string(c.UID) != s.Certificates.LastRequest {
			continue
		}
		credential := c.Spec.Extra["authentication.kubernetes.io/credential-id"][0]
		if s.Join == nil || s.Join.CredentialID != credential || s.Certificates.Epoch != epochOf(after) {
			o.w.violate("M43", "%s is counted for epoch %d of %s at epoch %d, with credential %s", c.Name, s.Certificates.Epoch, after.Name, epochOf(after), credential)
		}
	}
}

// stored checks what a leader has written: epochs grow (M40), and no credential is in it (M43).
func (o *oracle) stored(key string, data []byte) {
	if bytes.Contains(data, []byte(cluster.Marked)) {
		o.w.violate("M43", "object %s holds a credential", key)
	}
	if data == nil {
		delete(o.epochs, key)
		return
	}
	r, err := layout.DecodeMachineRecord(key, data)
	if err != nil || r.Epoch < o.epochs[key] {
		o.w.violate("M40", "object %s has epoch %d after %d (%v)", key, r.Epoch, o.epochs[key], err)
	}
	o.epochs[key] = r.Epoch
}

// touches checks a step by which a paver stops a machine: never that of the Node which its HostMachine
// has (M52). That a machine which boots or joins is stopped because nobody confirms it is another matter.
func (o *oracle) touches(h *host, s transition.Step) {
	j, up := h.Known()
	o.journal(h, j)
	o.retires(h, s, j)
	m, there := objects.Find[*hostsv1.HostMachine](o.w.api.Store, h.name)
	if !up || !ends(s.Kind) || !there || !m.DeletionTimestamp.IsZero() || o.of(h.name).lost || uidOf(m) == "" {
		return
	}
	if j.Transition != nil && j.Transition.To == s.Slot {
		return
	}
	node, exists := objects.Find[*corev1.Node](o.w.api.Store, h.name)
	if !exists || string(node.UID) != uidOf(m) {
		return
	}
	for _, r := range h.Runs() {
		if r.Slot == s.Slot && !r.Orphan && r.Boot == node.Status.NodeInfo.BootID && !(s.Kind == transition.KillSlot && len(h.Runs()) > 1) {
			o.w.violate("M52", "%s: %s %s (%s), and the Node %s of it is there", h.name, s.Kind, s.Slot, s.Reason, node.UID)
		}
	}
}

// retires follows which slot was stopped for another one: that one is started by no host by itself (M58).
func (o *oracle) retires(h *host, s transition.Step, j journal.Journal) {
	of := o.of(h.name)
	switch {
	case s.Kind == transition.ResetHost:
		o.reset(h)
	case s.Kind == transition.RetireSlot && j.Transition != nil && j.Transition.Kind == journal.KindBuild:
		of.retired = s.Slot
	case s.Kind == transition.BootSlot && j.Transition != nil && j.Transition.Kind == journal.KindRevert && of.retired != journal.None && of.retired != s.Slot:
		o.w.violate("M60", "%s: it goes back to slot %s, and slot %s was stopped for what has failed", h.name, s.Slot, of.retired)
	case s.Kind == transition.BootSlot && of.retired == s.Slot, s.Kind == transition.GiveUp:
		of.retired = journal.None
	case s.Kind == transition.StartActive && of.retired == s.Slot && !of.lost:
		o.w.violate("M58", "%s: slot %s is started by itself, which was stopped for another one (%s)", h.name, s.Slot, s.Reason)
	}
}

// journal checks that an epoch has one content for ever (M41).
func (o *oracle) journal(h *host, j journal.Journal) {
	if j.Epoch == 0 {
		return
	}
	of, is := o.of(h.name), j.Hash+" for "+j.MachineUID
	if j.Outcome != nil && j.Outcome.Result == journal.Refused {
		return // it has nothing of that
	}
	if was, known := of.content[j.Epoch]; known && was != is {
		o.w.violate("M41", "%s: epoch %d is %s, and was assigned as %s", h.name, j.Epoch, is, was)
	}
	if j.Epoch <= of.floor {
		o.w.violate("M41", "%s: it builds epoch %d, and was reset by epoch %d since", h.name, j.Epoch, of.floor)
	}
	if j.Epoch < of.epoch && !of.lost {
		o.w.violate("M41", "%s: it goes back from epoch %d to %d", h.name, of.epoch, j.Epoch)
	}
	of.epoch = j.Epoch
}

// look checks what runs: one slot at most (M57), and that the tree is there which held the Node last (M58).
func (o *oracle) look() {
	for _, h := range o.w.hosts {
		of := o.of(h.name)
		if s := h.Status(); s.GetStage() == nstancev1.MachineStage_MACHINE_STAGE_RESET {
			of.floor = s.GetEpoch()
		}
		split := len(h.Runs()) > 1
		if split && !of.split {
			o.w.violate("M58", "%s: both slots run", h.name)
		}
		of.split = split
		if of.good != journal.None && !h.Exists(of.good) && !o.deleting(h) {
			o.w.violate("M58", "%s: the tree of slot %s is gone, which held the last Node that has joined", h.name, of.good)
			of.good = journal.None
		}
	}
}

func (o *oracle) deleting(h *host) bool {
	m, there := objects.Find[*hostsv1.HostMachine](o.w.api.Store, h.name)
	return !there || !m.DeletionTimestamp.IsZero()
}

// secrets looks for credentials where none may be: logs, events, files of hosts other than the slots' own.
func (o *oracle) secrets() {
	marked := []byte(cluster.Marked)
	if bytes.Contains(o.w.shard.Logs(), marked) {
		o.w.violate("M43", "a leader has logged a credential")
	}
	for _, name := range []string{"a", "b"} {
		if p := o.w.processes[name]; p != nil && bytes.Contains(p.said.Bytes(), marked) {
			o.w.violate("M43", "the operator says a credential")
		}
	}
	for _, h := range o.w.hosts {
		holders, trees, err := h.Left(cluster.Marked)
		if bytes.Contains(h.Logs(), marked) || len(holders) > 0 || err != nil {
			o.w.violate("M43", "%s: a credential is in its log or in %v (%v)", h.name, holders, err)
		}
		if len(trees) > 0 {
			o.w.violate("M58", "%s: trees are left: %v", h.name, slices.Compact(trees))
		}
	}
}
