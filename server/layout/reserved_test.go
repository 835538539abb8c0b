package layout_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
)

// TestS14_NoDocumentOfTheServersIsAFile: whatever is allowed, and wherever secrets are kept.
func TestS14_NoDocumentOfTheServersIsAFile(t *testing.T) {
	id, err := identity.NewID("wrk")
	if err != nil {
		t.Fatal(err)
	}
	operator, err := identity.NewID(identity.OperatorPrefix)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, secrets := range []string{"", "secret/", "keys/", "my-"} {
		for _, anywhere := range []bool{false, true} {
			sources := layout.FileSources{Anywhere: anywhere, Secrets: secrets}
			for _, key := range []string{
				secrets + "ca.key", secrets + "registration-nonce.key", "secret/ca.key", "secret/app-token",
				layout.ClusterLeaderKey, layout.LeaderKey("s"), layout.ConfigKey("s"), layout.GroupsKey("s"),
				layout.InstancePrefix("s"), layout.InstanceKey("s", "t", id), layout.OperatorPrefix, layout.OperatorKey("t", operator),
				layout.OperatorNonceKey(strings.Repeat("0", 64)), layout.CertlogKey("s", "t", now, id),
				layout.SnapshotPrefix("s"), layout.DecisionKey("s"), layout.SnapshotKey("s", 1, 1),
				"machine/s/x", layout.HostLogPrefix("s"), "operation/s/x", "decision/s.json.gz", "tenant/s/t.json", "groups/s.previous.jsonc",
			} {
				if secrets == "" && strings.HasSuffix(key, ".key") && !strings.Contains(key, "/") {
					continue // no place of a secret
				}
				if err := sources.Check(key); !errors.Is(err, layout.ErrReserved) {
					t.Errorf("%+v: %s: %v", sources, key, err)
				}
			}
			for _, key := range []string{"", "/secret/ca.key", "files/../secret/ca.key", "files//x", "x/../secret/ca.key"} {
				if err := sources.Check(key); err == nil {
					t.Errorf("%+v: %q may be a file", sources, key)
				}
			}
			if err := sources.Check("files/motd"); err != nil {
				t.Errorf("%+v: files/motd: %v", sources, err)
			}
			if err := sources.Check("images/x"); (err == nil) != anywhere {
				t.Errorf("%+v: images/x: %v", sources, err)
			}
		}
	}
}

func TestS14_SecretsHaveAPlaceOfTheirOwn(t *testing.T) {
	for prefix, ok := range map[string]bool{
		"secret/": true, "secret/blue/": true, "secret/x-": true, "keys/": true, "my-": true, "sec": false, "secret": false,
		"files/": false, "files/x/": false, "f": false, "config/": false, "instance/": false, "instance/s/": false, "groups/": false,
		"operator/": false, "operator-nonce/": false, "operator": false, "leader/": false, "certlog/": false, "snapshot/": false,
		"machine/": false, "operation/": false, "decision/": false, "tenant/": false, "ca.crt": false, "c": false, "": false,
	} {
		if err := layout.CheckSecretsPrefix(prefix); (err == nil) != ok {
			t.Errorf("%q: %v, want allowed: %t", prefix, err, ok)
		}
	}
}
