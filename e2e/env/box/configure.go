package box

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"runtime"
	"strings"
	"time"

	"nstance.dev/providers/local"
	"nstance.dev/providers/local/dev"
)

// patient are the settings of a development cluster in which a busy box would be
// taken for sick machines, with values that leave it time. What a test provokes is
// noticed without them: a machine that ends breaks its stream at once. A new leader
// gives a create of the old one the time-out of a request, so that one stays short.
var patient = map[string]string{
	`"health_check_interval": "2s"`: `"health_check_interval": "20s"`,
	`"request_timeout": "5s"`:       `"request_timeout": "10s"`,
	`"registration_timeout": "30s"`: `"registration_timeout": "5m"`,
	`"leader_timeout": "5s"`:        `"leader_timeout": "LEASE"`,
}

// Configure puts what a cluster needs before its first server into the box and its
// storage: the key that seals secrets, and the configuration of `dev` with one group,
// web, made patient. Its locks last for lease.
func (b *Box) Configure(size int, lease time.Duration) {
	b.t.Helper()
	for _, dir := range []string{b.Path("machines"), b.Path("bucket")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			b.t.Fatal(err)
		}
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	if err := os.WriteFile(b.KeyPath(), []byte("hex:"+hex.EncodeToString(key)+"\n"), 0o600); err != nil {
		b.t.Fatal(err)
	}
	text, err := dev.Config(dev.ConfigOptions{
		MachinesDir: b.Path("machines"), EncryptionKeyFile: b.KeyPath(), Size: size,
		Arch: runtime.GOARCH, Userdata: local.DefaultUserData,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.SetConfig(b.Patient(string(text), lease))
}

// Patient returns the configuration of a development cluster with the settings replaced
// that are too short for a busy box; its locks last for lease.
func (b *Box) Patient(text string, lease time.Duration) string {
	b.t.Helper()
	for short, long := range patient {
		if !strings.Contains(text, short) {
			b.t.Fatalf("the development configuration has no %s", short)
		}
		text = strings.ReplaceAll(text, short, strings.Replace(long, "LEASE", lease.String(), 1))
	}
	return text
}
