package identity_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"nstance.dev/protos/identity"
)

func TestF52_ValidateName(t *testing.T) {
	for _, s := range []string{"a", "0", "a-b", "us-west-2a", "9lives", strings.Repeat("a", 32)} {
		if err := identity.ValidateName(s); err != nil {
			t.Errorf("ValidateName(%q) = %v, want nil", s, err)
		}
	}
	for _, tt := range []struct{ name, says string }{
		{"", "empty"},
		{strings.Repeat("a", 33), "33 bytes long, at most 32"},
		{strings.Repeat("a", 1<<20), "bytes long"},
		{"Web", "character 1 is not one of"},
		{"a_b", "character 2 is not one of"},
		{"..", "character 1 is not one of"},
		{"a.b", "character 2 is not one of"},
		{"a/b", "character 2 is not one of"},
		{"a%2fb", "character 2 is not one of"},
		{"a b", "character 2 is not one of"},
		{"a\n", "character 2 is not one of"},
		{"a\x00", "character 2 is not one of"},
		{"wеb", "character 2 is not one of"}, // the second letter is Cyrillic
		{"\xff", "character 1 is not one of"},
		{"a--b", `contains "--"`},
		{"-a", "begin and end with a letter or digit"},
		{"a-", "begin and end with a letter or digit"},
		{"-", "begin and end with a letter or digit"},
	} {
		err := identity.ValidateName(tt.name)
		if !errors.Is(err, identity.ErrName) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("ValidateName(%.40q) = %v, want an error that says %q", tt.name, err, tt.says)
		}
		if err != nil && (len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\n\x00")) {
			t.Errorf("the error for %.40q is not fit for a log line", tt.name)
		}
	}
}

func TestF52_ValidateKind(t *testing.T) {
	for s, ok := range map[string]bool{"knc": true, "acc": true, "opr": false, "": false, "kn": false, "knce": false, "KNC": false, "k1c": false} {
		if err := identity.ValidateKind(s); (err == nil) != ok || (err != nil && !errors.Is(err, identity.ErrName)) {
			t.Errorf("ValidateKind(%q) = %v, want it valid: %v", s, err, ok)
		}
	}
}

func TestServerName(t *testing.T) {
	if got, want := identity.ServerName("us-west-2a", "example"), "us-west-2a.example.nstance"; got != want {
		t.Errorf("ServerName = %q, want %q", got, want)
	}
}

func TestLabel(t *testing.T) {
	if got, want := identity.Label(identity.TagClusterID), "nstance-cluster-id"; got != want {
		t.Errorf("Label = %q, want %q", got, want)
	}
}

func FuzzValidateName(f *testing.F) {
	for _, s := range []string{"", "web", "a--b", "-a", "A", "a/b", "wеb", strings.Repeat("a", 33)} {
		f.Add(s)
	}
	// The rule once more, in the words of one regular expression.
	rule := regexp.MustCompile(`\A[a-z0-9](-?[a-z0-9]){0,31}\z`)
	f.Fuzz(func(t *testing.T, s string) {
		want := len(s) <= 32 && rule.MatchString(s)
		if err := identity.ValidateName(s); (err == nil) != want {
			t.Fatalf("ValidateName(%q) = %v, want it valid: %v", s, err, want)
		}
	})
}
