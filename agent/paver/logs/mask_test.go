package logs

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// marked is what must never be in what is handed over.
const marked = "MaRkEdSeCrEt0123456789"

func said(message string) entry {
	return entry{unit: "x.service", identifier: "x", pid: "7", message: message}
}

// TestMask: what is masked, and what is left.
func TestMask(t *testing.T) {
	for _, c := range []struct{ name, message, want string }{
		{"nothing", "Started kubelet.service - kubelet", "Started kubelet.service - kubelet"},
		{"a known secret", "got " + marked + "!", "got " + Masked + "!"},
		{"a known secret in base64", "got TWFSa0VkU2VDckV0MDEyMzQ1Njc4OQ==", "got " + Masked},
		{"a name and a value", "login password=hunter2 ok", "login password=" + Masked + " ok"},
		{"a value with commas", "login password=ab,cd;ef}gh, ok", "login password=" + Masked + " ok"},
		{"a number", `{"token":12,"pod":"web-1"}`, `{"token":` + Masked + `"pod":"web-1"}`},
		{"JSON", `{"token":"abc def","pod":"web-1"}`, `{"token":` + Masked + `,"pod":"web-1"}`},
		{"JSON with an escaped quote", `{"secret":"a\"bc","x":1}`, `{"secret":` + Masked + `,"x":1}`},
		{"JSON within JSON", `{"body":"{\"api_key\":\"abc\"}"}`, `{"body":"{\"api_key\":` + Masked + `}"}`},
		{"YAML", "client-key-data: LS0t", "client-key-data: " + Masked},
		{"a quote that is cut off", `nonce="abc def`, "nonce=" + Masked},
		{"an option", "run --bootstrap-token abcdef --node a", "run --bootstrap-token " + Masked + " --node a"},
		{"a header", "Authorization: Bearer abc.def-ghi", "Authorization: " + Masked + " " + Masked},
		{"a token of its own", "sent eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln on", "sent " + Masked + " on"},
		{"a token that is cut", "sent eyJhbGciOiJFUzI1NiJ9.eyJzdWI", "sent " + Masked},
		{"a bootstrap token", "kubeadm join abcdef.0123456789abcdef now", "kubeadm join " + Masked + " now"},
		{"an access key", "as AKIAIOSFODNN7EXAMPLE", "as " + Masked},
		{"a login in an address", "pull https://me:pw@registry.example.com/x", "pull https://" + Masked + "@registry.example.com/x"},
		{"a login without a name", "dial redis://:pw@cache:6379/0", "dial redis://" + Masked + "@cache:6379/0"},
		{"a signed address", "GET /x?X-Amz-Signature=abc&y=1", "GET /x?X-Amz-Signature=" + Masked + "&y=1"},
		{"a long blob", "blob " + strings.Repeat("QUJD", 30), "blob " + Masked},
		{"a line of base64", "data:\n" + strings.Repeat("QUJD", 16) + "\nend", "data:\n" + Masked + "\nend"},
		{"a digest is none", "image sha256:" + strings.Repeat("0123abcd", 8) + " pulled", "image sha256:" + strings.Repeat("0123abcd", 8) + " pulled"},
		{"a private key", "key:\n-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----\nend", "key:\n" + Masked + "\nend"},
		{"a certificate is none", "-----BEGIN CERTIFICATE-----\nMHcC\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nMHcC\n-----END CERTIFICATE-----"},
		{"a name of Kubernetes", `"Syncing" pod="kube-system/web-token-1" key="default/web"`, `"Syncing" pod="kube-system/web-token-1" key="default/web"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := NewMask([]string{marked, "short"}).message(said(c.message)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestMaskOfAKeyInManyEntries: a program writes a private key line by line, while another one writes too.
func TestMaskOfAKeyInManyEntries(t *testing.T) {
	m := NewMask(nil)
	other := entry{identifier: "other", message: "hello"}
	for _, step := range []struct {
		e    entry
		want string
	}{
		{said("before"), "before"},
		{said("-----BEGIN OPENSSH PRIVATE KEY-----"), Masked},
		{other, "hello"},
		{said("short"), Masked},
		{said("-----END OPENSSH PRIVATE KEY----- after"), Masked + " after"},
		{said("end"), "end"},
	} {
		if got := m.message(step.e); got != step.want {
			t.Errorf("%q: %q, want %q", step.e.message, got, step.want)
		}
	}
	if m.Number != 3 {
		t.Errorf("masked in %d, want 3", m.Number)
	}
}

// TestMaskOfUserData: whatever cloud-init says, by its identifier or its unit.
func TestMaskOfUserData(t *testing.T) {
	for _, e := range []entry{{identifier: "cloud-init"}, {identifier: "cloud-init[1]"}, {unit: "cloud-final.service", identifier: "sh"}, {identifier: "user-data"}} {
		e.message = "#cloud-config: " + marked
		if got := NewMask(nil).message(e); got != Masked {
			t.Errorf("%+v: %q", e, got)
		}
	}
}

// TestMaskedForms: a marked secret in every form that secrets are written in, in any surroundings, and many times.
func TestMaskedForms(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	forms := []string{
		"password=%s", `"token": "%s"`, "nonce: %s", "Authorization: Bearer %s", "-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----",
		"https://user:%s@host/", "--client-secret %s", "user-data='%s'", `{\"registry_auth\":\"%s\"}`,
	}
	around := []string{"", "x ", "time=1 level=info ", "\n", "{", "a=b,", `"`}
	for range 20_000 {
		var text strings.Builder
		for range 1 + random.IntN(3) {
			text.WriteString(around[random.IntN(len(around))])
			fmt.Fprintf(&text, forms[random.IntN(len(forms))], marked)
			text.WriteString([]string{" ", "\n", ", "}[random.IntN(3)])
		}
		if got := NewMask(nil).message(said(text.String())); strings.Contains(got, marked) {
			t.Fatalf("%q\nleaves %q", text.String(), got)
		}
	}
}

// TestLeaves: the secrets of a pull secret, decoded too.
func TestLeaves(t *testing.T) {
	got := strings.Join(Leaves([]byte(`{"auths":{"r.example.com":{"auth":"bWU6cGFzc3dvcmQ=","list":["a"]}}}`)), " ")
	if got != "bWU6cGFzc3dvcmQ= me:password password a" && got != "a bWU6cGFzc3dvcmQ= me:password password" {
		t.Errorf("leaves %q", got)
	}
	if got := Leaves([]byte("no JSON")); len(got) != 1 || got[0] != "no JSON" {
		t.Errorf("leaves of a text: %q", got)
	}
}
