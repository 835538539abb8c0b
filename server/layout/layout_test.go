package layout_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var (
	node     = newID("knc", 1)
	operator = newID("opr", 2)
	moment   = time.Date(2026, 11, 21, 12, 30, 15, 42_000_000, time.UTC)
	// unknown members are compared by what is written.
	exported = cmpopts.IgnoreUnexported(layout.InstanceRecord{}, layout.OperatorRecord{})
)

// newID is the same id for the same seed.
func newID(prefix string, seed byte) identity.ID {
	g := identity.Generator{
		Now:  func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) },
		Rand: bytes.NewReader(bytes.Repeat([]byte{seed}, 16)),
	}
	id, err := g.NewID(prefix)
	if err != nil {
		panic(err)
	}
	return id
}

func record() layout.InstanceRecord {
	return layout.InstanceRecord{
		Term: 7, ID: node, Tenant: "default", ClusterID: "c", Shard: "us-west-2a", Group: "main", Template: "knc", Kind: "knc",
		InstanceType: "t4g.medium", Arch: "arm64", SubnetPool: "workers", SubnetID: "subnet-1",
		Overrides: json.RawMessage(`{"vars":{}}`), InfraHash: "sha256:1", Provider: "aws",
		Status: layout.StatusPending, CreatedAt: layout.At(moment),
		NonceSHA256: strings.Repeat("ab", 32), NonceExpires: layout.At(moment.Add(5 * time.Minute)),
	}
}

func dying() layout.InstanceRecord {
	r := record()
	r.Status, r.ProviderID, r.RegisteredAt = layout.StatusDeleting, "i-1", layout.At(moment.Add(time.Minute))
	r.LaunchedAt = layout.At(moment.Add(10 * time.Second))
	r.Certificate = layout.Certificate{
		Serial: "02", PreviousSerial: "01", NotBefore: layout.At(moment), NotAfter: layout.At(moment.Add(time.Hour)),
	}
	r.Deletion = &layout.Deletion{Reason: "unhealthy", RequestedAt: layout.At(moment), ReplacementID: newID("knc", 3)}
	return r
}

func serving() layout.InstanceRecord {
	r := record()
	r.Status, r.ProviderID, r.RegisteredAt, r.Served = layout.StatusRegistered, "i-1", layout.At(moment.Add(time.Minute)), "default"
	r.Purchase = &layout.Purchase{CapacityType: "spot"}
	r.Binding = &layout.Binding{
		State: layout.BindingDraining, Cluster: "default", ID: "b-1", Price: 4200, Since: layout.At(moment.Add(time.Hour)), BoundAt: layout.At(moment),
		Stamps: layout.Stamps{}.Set("priority", 7).Set("need", "0a0b"),
		Drain: &layout.Drain{
			Instruction: "rcl-1", StartedAt: layout.At(moment.Add(time.Hour)), Deadline: layout.At(moment.Add(2 * time.Hour)), Voluntary: true, Reason: "surplus",
		},
	}
	return r
}

func encoded(t testing.TB, d interface{ Encode() ([]byte, error) }) []byte {
	t.Helper()
	data, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheFormOfRecordsIsGolden(t *testing.T) {
	op := layout.OperatorRecord{ID: operator, Tenant: "prod", ClusterID: "c", PublicKeyPEM: "pem", RegisteredAt: layout.At(moment)}
	log := layout.Certlog{
		Term: 7, InstanceID: node, Tenant: "prod", IssuedAt: layout.At(moment),
		Certificates: []layout.IssuedCertificate{{Name: "kubelet.client", Serial: "01", ExpiresAt: layout.At(moment)}},
	}
	for name, doc := range map[string]interface{ Encode() ([]byte, error) }{
		"pending": record(), "deleting": dying(), "serving": serving(), "operator": op, "certlog": log,
		"machine": machineRecord(),
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := json.Indent(&got, encoded(t, doc), "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			file := "testdata/" + name + ".json"
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestF10_DamagedRecordsAreNeverAbsent(t *testing.T) {
	good := encoded(t, record())
	edit := func(from, to string) []byte { return bytes.Replace(good, []byte(from), []byte(to), 1) }
	key := record().Key()
	tests := []struct {
		name string
		key  string
		data []byte
		want error
		says string
	}{
		{"empty", key, nil, layout.ErrUnreadable, "it is empty"},
		{"blank", key, []byte(" \n"), layout.ErrUnreadable, "it is empty"},
		{"null", key, []byte("null"), layout.ErrUnreadable, "version"},
		{"truncated", key, good[:len(good)-9], layout.ErrUnreadable, "only a part"},
		{"two documents", key, append(bytes.Clone(good), good...), layout.ErrUnreadable, "only a part"},
		{"another type", key, []byte(`["v",1]`), layout.ErrUnreadable, "not a JSON object"},
		{"without a version", key, edit(`"v":1`, `"w":1`), layout.ErrUnreadable, "member v"},
		{"of version 0", key, edit(`"v":1`, `"v":0`), layout.ErrUnreadable, "member v"},
		{"newer", key, edit(`"v":1`, `"v":2`), layout.ErrNewer, "upgrade"},
		{"newer and of another form", key, []byte(`{"v":2,"id":[]}`), layout.ErrNewer, "upgrade"},
		{"another id", layout.InstanceKey("us-west-2a", "default", newID("knc", 9)), good, layout.ErrUnreadable, "member id"},
		{"another tenant", layout.InstanceKey("us-west-2a", "prod", node), good, layout.ErrUnreadable, "member tenant"},
		{"another shard", layout.InstanceKey("b", "default", node), good, layout.ErrUnreadable, "member shard"},
		{"a key of something else", "groups/b.jsonc", good, layout.ErrUnreadable, "not of the form"},
		{"a member of another type", key, edit(`"on_demand":false`, `"on_demand":"no"`), layout.ErrUnreadable, "member on_demand"},
		{"a broken time", key, edit(`"created_at":"2026`, `"created_at":"x`), layout.ErrUnreadable, "member created_at"},
		{"a nested member of another type", key, edit(`"serial":""`, `"serial":1`), layout.ErrUnreadable, "member certificate: member serial"},
		{"an unknown status", key, edit(`"pending"`, `"running"`), layout.ErrUnreadable, "member status"},
		{"a binding in an unknown state", key, edit(`"deletion"`, `"binding":{"state":"lent","cluster":"c"},"deletion"`), layout.ErrUnreadable, "member state"},
		{"a binding to nobody", key, edit(`"deletion"`, `"binding":{"state":"bound"},"deletion"`), layout.ErrUnreadable, "member cluster"},
		{"a drain of what is bound", key, edit(`"deletion"`, `"binding":{"state":"bound","cluster":"c","drain":{}},"deletion"`), layout.ErrUnreadable, "member drain"},
		{"a group that is a path", key, edit(`"group":"main"`, `"group":"../main"`), layout.ErrUnreadable, "member group"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := layout.DecodeInstanceRecord(test.key, test.data)
			typed, ok := errors.AsType[*layout.DocumentError](err)
			if !errors.Is(err, test.want) || !ok || typed.Key != test.key || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("error %v, want %v that says %q", err, test.want, test.says)
			}
			if errors.Is(err, layout.ErrNewer) == errors.Is(err, layout.ErrUnreadable) {
				t.Fatalf("error %v must be of one class", err)
			}
		})
	}
}

func TestUnknownMembersSurviveARewrite(t *testing.T) {
	data := bytes.Replace(encoded(t, dying()), []byte(`{`), []byte(`{"later":{"a":[1]},"ID":"other",`), 1)
	data = bytes.Replace(data, []byte(`"reason"`), []byte(`"by":"ann","reason"`), 1)
	data = bytes.Replace(data, []byte(`"serial"`), []byte(`"algorithm":"x","serial"`), 1)
	data = bytes.Replace(data, []byte(`{"vars":{}}`), []byte(`{"vars":{"old":1}}`), 1)
	r, err := layout.DecodeInstanceRecord(record().Key(), data)
	if err != nil {
		t.Fatal(err)
	}
	r.Hostname, r.Overrides = "h", json.RawMessage(`{}`)
	out := string(encoded(t, r))
	for _, want := range []string{`"later":{"a":[1]}`, `"by":"ann"`, `"algorithm":"x"`, `"hostname":"h"`, `"overrides":{}`, `"ID":"other"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	again, err := layout.DecodeInstanceRecord(r.Key(), []byte(out))
	if diff := cmp.Diff(r, again, exported); err != nil || diff != "" {
		t.Errorf("error %v, difference %s", err, diff)
	}
	r.Deletion = nil
	if out := string(encoded(t, r)); strings.Contains(out, "ann") {
		t.Errorf("what was unknown of a deletion outlives it: %s", out)
	}
}

func TestEncodeRefusesWhatCannotBeRead(t *testing.T) {
	for name, change := range map[string]func(*layout.InstanceRecord){
		"no id":        func(r *layout.InstanceRecord) { r.ID = "" },
		"no time":      func(r *layout.InstanceRecord) { r.CreatedAt = layout.Time{} },
		"no status":    func(r *layout.InstanceRecord) { r.Status = "" },
		"a tenant F52": func(r *layout.InstanceRecord) { r.Tenant = "a/../b" },
		"binding":      func(r *layout.InstanceRecord) { r.Binding = &layout.Binding{State: "lent", Cluster: "c"} },
		"overrides":    func(r *layout.InstanceRecord) { r.Overrides = json.RawMessage("{") },
	} {
		r := record()
		change(&r)
		if data, err := r.Encode(); err == nil {
			t.Errorf("%s: encoded as %s", name, data)
		}
	}
}

func TestInstanceRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := func(name string) layout.Time {
			return layout.At(time.UnixMilli(rapid.Int64Range(-62135596800000, 253402300799999).Draw(t, name)))
		}
		r := record()
		r.Hostname, r.PublicKeyPEM = rapid.String().Draw(t, "hostname"), rapid.String().Draw(t, "pem")
		r.OnDemand, r.Term = rapid.Bool().Draw(t, "on demand"), rapid.Uint64().Draw(t, "term")
		r.RegisteredAt, r.Certificate.NotAfter = at("registered"), at("not after")
		r.Certificate.PreviousSerial = rapid.String().Draw(t, "previous")
		if rapid.Bool().Draw(t, "deletion") {
			r.Deletion = &layout.Deletion{Reason: "expired", DeleteAt: at("delete")}
		}
		if rapid.Bool().Draw(t, "binding") {
			r.Binding = &layout.Binding{
				State: layout.BindingBound, Cluster: rapid.StringN(1, 9, -1).Draw(t, "cluster"), Price: rapid.Int64().Draw(t, "price"), Since: at("since"),
				Stamps: layout.Stamps{}.Set("group", rapid.String().Draw(t, "stamp")),
			}
		}
		if rapid.Bool().Draw(t, "failed") {
			r.Failed = &layout.Failure{Reason: "JoinTimeout", At: at("failed at")}
		}
		data, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := layout.DecodeInstanceRecord(r.Key(), data)
		r.V = 1
		if diff := cmp.Diff(r, got, exported); err != nil || diff != "" {
			t.Fatalf("error %v, difference %s", err, diff)
		}
	})
}

func FuzzDecodeInstanceRecord(f *testing.F) {
	f.Add(encoded(f, record()))
	f.Add(encoded(f, dying()))
	f.Add(encoded(f, serving()))
	f.Add([]byte(`{"v":1,"deletion":{"x":1},"certificate":null}`))
	key := record().Key()
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := layout.DecodeInstanceRecord(key, data)
		if err != nil {
			if _, ok := errors.AsType[*layout.DocumentError](err); !ok {
				t.Fatalf("error of another type: %v", err)
			}
			return
		}
		again, err := layout.DecodeInstanceRecord(key, encoded(t, r))
		if err != nil {
			t.Fatalf("what was read and written is not read again: %v", err)
		}
		if !bytes.Equal(encoded(t, r), encoded(t, again)) {
			t.Fatal("a second rewrite differs from the first")
		}
	})
}

func FuzzDecodeOperatorRecord(f *testing.F) {
	r := layout.OperatorRecord{ID: operator, Tenant: "prod", ClusterID: "c"}
	f.Add(encoded(f, r))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := layout.DecodeOperatorRecord(r.Key(), data); err == nil {
			if _, err := layout.DecodeOperatorRecord(r.Key(), encoded(t, got)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzDecodeCertlog(f *testing.F) {
	l := layout.Certlog{InstanceID: node, Tenant: "prod", IssuedAt: layout.At(moment)}
	f.Add(encoded(f, l))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := layout.DecodeCertlog(l.Key("a"), data); err == nil {
			if _, err := layout.DecodeCertlog(l.Key("a"), encoded(t, got)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func machineRecord() layout.MachineRecord {
	return layout.MachineRecord{
		Term: 7, InstanceID: node, Tenant: "prod", Epoch: 3, Hash: "sha256:" + strings.Repeat("0a", 32), Payload: []byte("assignment"),
		At: layout.At(moment), Confirmed: &layout.NodeConfirmation{NodeUID: "uid-1", BootID: "boot-1", At: layout.At(moment.Add(time.Minute))},
	}
}

func TestF10_DamagedAssignmentsAreNeverAbsent(t *testing.T) {
	key, good := machineRecord().Key("a"), encoded(t, machineRecord())
	edit := func(from, to string) []byte { return bytes.Replace(good, []byte(from), []byte(to), 1) }
	for name, data := range map[string][]byte{
		"empty":             nil,
		"truncated":         good[:len(good)-4],
		"another instance":  edit(node.String(), newID("knc", 9).String()),
		"another tenant":    edit(`"prod"`, `"dev"`),
		"no epoch":          edit(`"epoch":3`, `"epoch":0`),
		"no payload":        edit(`"payload":"`, `"paid":"`),
		"a broken payload":  edit(`"payload":"`, `"payload":"*`),
		"no time":           edit(`"at":"2026`, `"then":"2026`),
		"a broken witness":  edit(`"node_uid":"uid-1"`, `"node_uid":1`),
		"another structure": []byte(`{"v":1,"epoch":"3"}`),
	} {
		if _, err := layout.DecodeMachineRecord(key, data); !errors.Is(err, layout.ErrUnreadable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := layout.DecodeMachineRecord(key, edit(`"v":1`, `"v":2`)); !errors.Is(err, layout.ErrNewer) {
		t.Errorf("newer: %v", err)
	}
	r, err := layout.DecodeMachineRecord(key, edit(`"epoch"`, `"prebuild":{"hash":"x"},"epoch"`))
	if err != nil {
		t.Fatal(err)
	}
	r.Confirmed = nil
	if out := string(encoded(t, r)); !strings.Contains(out, `"prebuild":{"hash":"x"}`) || strings.Contains(out, "uid-1") {
		t.Errorf("rewritten as %s", out)
	}
}

func FuzzDecodeMachineRecord(f *testing.F) {
	key := machineRecord().Key("a")
	f.Add(encoded(f, machineRecord()))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := layout.DecodeMachineRecord(key, data); err == nil {
			if _, err := layout.DecodeMachineRecord(key, encoded(t, got)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzDecodeOperatorNonce(f *testing.F) {
	hash := strings.Repeat("0a", 32)
	f.Add(encoded(f, layout.OperatorNonce{OperatorID: operator, PublicKeySHA256: hash}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := layout.DecodeOperatorNonce(layout.OperatorNonceKey(hash), data); err == nil {
			encoded(t, got)
		}
	})
}

// TestStampsThatNobodyUnderstandsAreNotFatal, nor are they lost where others are changed.
func TestStampsThatNobodyUnderstandsAreNotFatal(t *testing.T) {
	data := bytes.Replace(encoded(t, serving()), []byte(`"priority":7`), []byte(`"priority":"much","later":{"x":1}`), 1)
	r, err := layout.DecodeInstanceRecord(record().Key(), data)
	if err != nil {
		t.Fatal(err)
	}
	priority, need := int32(3), ""
	if r.Binding.Stamps.Get("priority", &priority) || priority != 3 {
		t.Errorf("a priority that is a text was taken for %d", priority)
	}
	if !r.Binding.Stamps.Get("need", &need) || need != "0a0b" {
		t.Errorf("need %q", need)
	}
	next := *r.Binding
	next.Stamps = next.Stamps.Set("priority", 5)
	before := r.Binding.Stamps["priority"]
	r.Binding = &next
	if string(before) != `"much"` {
		t.Errorf("the stamps of a copy have changed to %s", before)
	}
	if out := string(encoded(t, r)); !strings.Contains(out, `"later":{"x":1}`) || !strings.Contains(out, `"priority":5`) {
		t.Errorf("written as %s", out)
	}
	data = bytes.Replace(encoded(t, serving()), []byte(`"stamps":{"need":"0a0b","priority":7}`), []byte(`"stamps":[1]`), 1)
	if r, err = layout.DecodeInstanceRecord(record().Key(), data); err != nil || len(r.Binding.Stamps) != 0 {
		t.Errorf("stamps that are a list: %v, error %v", r.Binding.Stamps, err)
	}
}
