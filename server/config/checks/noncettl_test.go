package checks_test

import (
	"fmt"
	"strings"
	"testing"

	"nstance.dev/server/config"
)

func TestNonceTTL(t *testing.T) {
	for ttl, ok := range map[string]bool{`"0s"`: true, `"5m"`: true, `"20m"`: true, `"48h"`: true, `"4m59s"`: false, `"49h"`: false, `"-5m"`: false} {
		text := fmt.Sprintf(`{"server": { "registration": {"nonce_ttl": %s}, "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"] } }}`, ttl)
		_, err := config.Load("test.jsonc", []byte(text), config.LoadOptions{})
		if ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "server.registration.nonce_ttl:") {
			t.Errorf("%s: %v", ttl, err)
		}
	}
}
