package provisioning

import (
	"testing"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
)

// A machine whose template has node machines is recorded as one, and its user data has the host's policy; another
// one has neither, whatever its user data asks for.
func TestMachinesAreToldTheirPolicy(t *testing.T) {
	const data = `{"content": "{{ .Machine.Policy }}|{{ .Nonce }}"}`
	for machine, on := range map[string]*document.Machine{
		``: nil, `, "machine": {"enabled": false, "policy": {"drift": false}}`: nil,
		`, "machine": {"enabled": true, "policy": {"drift": false}}`: {Enabled: true, Policy: &document.MachinePolicy{Drift: new(bool)}},
	} {
		inWorld(t, settings{data: data + machine}, func(t *testing.T, w *world) {
			id, launched := w.launch(web)
			if !launched {
				t.Fatal("not launched")
			}
			w.wantMade(id)
			w.wantTold(id, on)
		})
	}
}

func (w *world) wantTold(id identity.ID, on *document.Machine) {
	w.t.Helper()
	rec, known := w.instances.Record(id)
	if !known || rec.Machine != (on != nil) {
		w.t.Errorf("record %+v, want machine %t", rec, on != nil)
	}
	vm, _ := w.cloud.Machine(id)
	if text := string(vm.Request.UserData); len(text) < len(on.PolicyText()) || text[:len(on.PolicyText())] != on.PolicyText() || text[len(on.PolicyText())] != '|' {
		w.t.Errorf("user data %q, want the policy %q", text, on.PolicyText())
	}
}
