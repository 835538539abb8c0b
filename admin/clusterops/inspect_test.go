package clusterops_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"nstance.dev/admin/clusterops"
	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

func (w *world) put(t *testing.T, key string, data []byte, err error) {
	t.Helper()
	if err == nil {
		_, err = w.objects.PutIfAbsent(t.Context(), key, data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestInspect(t *testing.T) {
	w := newWorld(t)
	w.bootstrap(t)
	operator, err := w.open(t).RegisterOperator(t.Context(), clusterops.OperatorRequest{ClusterID: "dev", Tenant: "red", TTL: time.Hour, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	lock := lease.Document{LeaderID: "server-1", Term: 7, LastUpdated: now, LeaseSeconds: 15}
	data, err := lock.Encode()
	w.put(t, layout.LeaderKey("zone-a"), data, err)
	for i, tenant := range []string{"red", "red", "blue"} {
		id, err := identity.NewID("knc")
		if err != nil {
			t.Fatal(err)
		}
		record := layout.InstanceRecord{
			Term: 7, ID: id, Tenant: tenant, ClusterID: "dev", Shard: "zone-a", Group: "web", Template: "w", Kind: "knc",
			Status: layout.StatusPending, CreatedAt: layout.At(now), NonceSHA256: strings.Repeat("ab", 32), NonceExpires: layout.At(now),
		}
		data, err := record.Encode()
		w.put(t, record.Key(), data, err)
		if i == 0 {
			w.put(t, layout.GroupsKey("zone-a"), []byte(`{"v":1,"term":7,"groups":{"red":{"web":{"template":"w","size":2}}}}`), nil)
		}
	}
	w.put(t, "config/zone-a.jsonc", []byte("{"), nil)
	w.put(t, "leader/self-test-x", []byte("x"), nil)
	w.put(t, "leader/zone-b.json", []byte("damaged"), nil)

	state, err := w.open(t).Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Authority) != 1 || state.Authority[0].Subject != "CN=dev CA" {
		t.Errorf("authority %+v", state.Authority)
	}
	if len(state.Locks) != 1 || state.Locks[0].Lock != "zone-a" || state.Locks[0].Leader != "server-1" || state.Locks[0].Term != 7 {
		t.Errorf("locks %+v", state.Locks)
	}
	if len(state.Groups) != 1 || state.Groups[0].Group != "web" || *state.Groups[0].Size != 2 {
		t.Errorf("groups %+v", state.Groups)
	}
	if len(state.Instances) != 2 || state.Instances[0] != (clusterops.InstanceCount{Shard: "zone-a", Tenant: "blue", Status: "pending", Count: 1}) || state.Instances[1].Count != 2 {
		t.Errorf("instances %+v", state.Instances)
	}
	if len(state.Operators) != 1 || state.Operators[0].ID != operator.ID.String() || state.Operators[0].Tenant != "red" {
		t.Errorf("operators %+v", state.Operators)
	}
	if len(state.Secrets) != 2 || state.Secrets[0].Name != pki.CAKeySecret || !state.Secrets[0].Readable {
		t.Errorf("secrets %+v", state.Secrets)
	}
	if len(state.Problems) != 2 || state.Problems[0].Key != "config/zone-a.jsonc" || state.Problems[1].Key != "leader/zone-b.json" {
		t.Errorf("problems %+v", state.Problems)
	}
}

func TestS14_InspectShowsNoSecret(t *testing.T) {
	const marked = "MARKED-MARKED-MARKED"
	w := newWorld(t)
	if err := w.secrets.Put(t.Context(), "tls.key", secrets.Secret(marked), secrets.Overwrite); err != nil {
		t.Fatal(err)
	}
	if err := w.secrets.Put(t.Context(), pki.NonceKeySecret, secrets.Secret(marked), secrets.Overwrite); err != nil {
		t.Fatal(err)
	}
	cluster := w.open(t)
	state, err := cluster.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	clock := now
	_, nonceErr := cluster.Nonce(t.Context(), clusterops.NonceRequest{ClusterID: "dev", Tenant: "red", Expiry: time.Hour, Now: now})
	_, rotateErr := cluster.RotateNonce(t.Context(), rotation(&clock, nil))
	_, initErr := cluster.Init(t.Context(), "dev", now)
	shown := string(data)
	for _, err := range []error{nonceErr, rotateErr, initErr} {
		if err == nil {
			t.Error("a broken key is accepted")
			continue
		}
		shown += err.Error()
	}
	if strings.Contains(shown, "MARKED") || !strings.Contains(shown, `"name":"tls.key","value":"[secret]"`) {
		t.Errorf("shown is\n%s", shown)
	}
}

func TestInspectOfNothing(t *testing.T) {
	state, err := newWorld(t).open(t).Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if data, err := json.Marshal(state); err != nil || strings.Contains(string(data), "null") {
		t.Errorf("%s, %v", data, err)
	}
}
