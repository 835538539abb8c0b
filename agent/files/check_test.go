package files_test

import (
	"encoding/pem"
	"strings"
	"testing"

	"nstance.dev/agent/files"
)

func block(typ string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: []byte("content")}))
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name, content, says string
	}{
		{"a.crt", block("CERTIFICATE"), ""},
		{"a.crt", block("CERTIFICATE") + block("CERTIFICATE"), ""},
		{"a.crt", "", "no certificate"},
		{"a.crt", block("PRIVATE KEY"), "block 1 is not a certificate"},
		{"a.crt", block("CERTIFICATE") + "tail", "text after"},
		{"a.key", block("PRIVATE KEY"), ""},
		{"a.key", block("EC PRIVATE KEY"), ""},
		{"a.key", block("PRIVATE KEY") + block("PRIVATE KEY"), "2 PEM blocks"},
		{"a.key", block("PUBLIC KEY"), "not a private key"},
		{"a.pub", block("PUBLIC KEY"), ""},
		{"a.pub", block("CERTIFICATE"), "not a public key"},
		{"a.json", `{"a":[1,2]}`, ""},
		{"a.json", `{"a":1}{}`, "JSON"},
		{"a.json", ``, "JSON"},
		{"a.env", "# comment\n\nA=1\n_b2=\"x y\"\nC=\n", ""},
		{"a.env", "", ""},
		{"a.env", "A=1\n2B=1\n", "line 2"},
		{"a.env", "export A=1", "line 1"},
		{"a.env", "A", "line 1"},
		{"a.env", "A=\x00", "zero byte"},
		{"a.conf", "anything \x00", ""},
		{"Makefile", "anything", ""},
		{"a.json", strings.Repeat(" ", files.MaxSize) + "1", "at most"},
	} {
		err := files.Check(tt.name, []byte(tt.content))
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Check(%s, %.40q) = %v, want %q", tt.name, tt.content, err, tt.says)
		}
	}
}

func TestS14_ErrorsQuoteNoContent(t *testing.T) {
	for _, name := range []string{"a.crt", "a.key", "a.pub", "a.json", "a.env"} {
		if err := files.Check(name, []byte("hunter2")); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Check(%s) = %v", name, err)
		}
	}
}

func FuzzValidName(f *testing.F) {
	for _, s := range []string{"kubelet.crt", "..", "a/b", ".x", "a\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if !files.ValidName(name) {
			return
		}
		if name == "" || len(name) > 128 || name[0] == '.' || strings.ContainsAny(name, "/\\\x00\n\r ") {
			t.Fatalf("%q is accepted", name)
		}
	})
}

func FuzzCheck(f *testing.F) {
	f.Add("a.env", []byte("A=1\n"))
	f.Add("a.crt", []byte(block("CERTIFICATE")))
	f.Add("a.key", []byte(block("PRIVATE KEY")))
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		err := files.Check(name, content)
		if err != nil && len(err.Error()) > 200 {
			t.Fatalf("long error %v", err)
		}
	})
}
