package checks_test

import (
	"fmt"
	"strings"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/config/configtest"
)

// withServer is the minimal configuration with more members of "server".
func withServer(members string) string {
	return strings.Replace(configtest.Minimal, `"shard": "s",`, `"shard": "s", `+members+`,`, 1)
}

// TestS26_ElectionTimesAreThoseOfALease: a time that the election itself would
// refuse is a problem of the document, with its place and what would be right.
func TestS26_ElectionTimesAreThoseOfALease(t *testing.T) {
	for _, tt := range []struct{ storage, times, want string }{
		{"", `"leader_timeout": "5s"`, ""},
		{"", `"leader_timeout": "1h"`, ""},
		{"", `"leader_timeout": "2h"`, "leader_timeout: 2h0m0s is too long; at most 1h0m0s"},
		{"", `"leader_timeout": "1h1s"`, "leader_timeout: 1h0m1s is too long; at most 1h0m0s"},
		{"", `"leader_timeout": "4s"`, "leader_timeout: 4s is too short; at least 5s"},
		{"", `"leader_timeout": "5500ms"`, "leader_timeout: 5.5s is not a number of whole seconds; write 5s or 6s"},
		{"", `"leader_timeout": "59m59.5s"`, "leader_timeout: 59m59.5s is not a number of whole seconds; write 59m59s or 1h0m0s"},
		{"gcs", `"leader_timeout": "9s"`, "leader_timeout: 9s is too short; at least 10s"},
		{"gcs", `"leader_timeout": "10s"`, ""},
		{"", `"frequent_interval": "6s"`, "frequent_interval: 6s is too long; at most 5s"},
		{"", `"peer_interval": "2s"`, "peer_interval: 2s is too long; at most 1.5s"},
	} {
		for _, lock := range []string{"shard_election", "cluster_election"} {
			text := withServer(fmt.Sprintf("%q: { %s }", lock, tt.times))
			_, err := config.Load("f", []byte(text), config.LoadOptions{Storage: tt.storage})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), ": server."+lock+"."+tt.want)) {
				t.Errorf("%s with %s on %q: %v, want %q", lock, tt.times, tt.storage, err, tt.want)
			}
		}
	}
}
