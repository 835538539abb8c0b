package gcpfake

import (
	"testing"

	"cloud.google.com/go/compute/apiv1/computepb"
)

func TestFilters(t *testing.T) {
	machine := &computepb.Instance{
		Name: new("knc-1"), Status: new("RUNNING"), Id: new(uint64(42)),
		Labels:            map[string]string{"nstance-managed": "true", "nstance-shard": "one", "empty": ""},
		Scheduling:        &computepb.Scheduling{AutomaticRestart: new(false)},
		NetworkInterfaces: []*computepb.NetworkInterface{{Name: new("nic0")}},
	}
	const yes, no, wrong = "yes", "no", "wrong"
	for text, want := range map[string]string{
		"":                                    yes,
		"name=knc-1":                          yes,
		`name = "knc-1"`:                      yes,
		"name != knc-1":                       no,
		"labels.nstance-managed=true":         yes,
		"labels.nstance-shard=two":            no,
		"labels.nstance-shard:*":              yes,
		"labels.other:*":                      no,
		"labels.other!=x":                     yes,
		`labels.empty=""`:                     yes,
		`labels.other=""`:                     no,
		"labels.nstance-shard:on":             yes,
		"scheduling.automaticRestart = false": yes,
		"id > 41":                             yes,
		"id < 5":                              no,
		"(status = RUNNING) (name = other)":   no,
		"(status = RUNNING) (name = knc-1)":   yes,
		"(status=RUNNING) AND (labels.nstance-managed=true) AND (labels.nstance-shard=one)": yes,
		"(name=a) OR (name=knc-1)":                    yes,
		"(name=a) OR (name=b) OR (status=RUNNING)":    yes,
		"(status=RUNNING) OR (name=a) AND (name=b)":   no, // OR binds more tightly
		"(status=RUNNING) OR ((name=a) AND (name=b))": yes,
		"status=RUNNING AND name=knc-1":               wrong, // each of several has to be in parentheses
		"status=RUNNING name=knc-1":                   wrong,
		"status=RUNNING OR name=knc-1":                wrong,
		"(status=RUNNING) AND name=knc-1":             wrong,
		"(status=RUNNING AND name=knc-1)":             wrong,
		"name eq knc-.* AND status eq RUNNING":        wrong,
		"(name = knc-1) AND NOT status = STAGING":     yes,
		"NOT name=a":     yes,
		"name eq knc-.*": yes,
		"name eq nc":     no,
		`name ne ".*-1"`: no,
		"(name eq knc-[0-9]) (status eq 'RUNNING|STAGING')": yes,
		"tag=x":                       wrong,
		"name":                        wrong,
		"name=":                       wrong,
		"=x":                          wrong,
		"(name=x":                     wrong,
		"name=x)":                     wrong,
		"networkInterfaces.name=nic0": wrong,
		"labels=x":                    wrong,
		"scheduling=x":                wrong,
		"name eq (":                   wrong,
		`name="x`:                     wrong,
	} {
		f, err := parseFilter(text)
		got := wrong
		if err == nil {
			var fits bool
			if fits, err = f.match(machine.ProtoReflect()); err == nil {
				got = map[bool]string{true: yes, false: no}[fits]
			}
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", text, got, err, want)
		}
	}
}
