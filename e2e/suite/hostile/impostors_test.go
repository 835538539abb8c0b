package hostile

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
)

// impostors are servers that are none: our own clients must not say a word to them.
var impostors = func() (rows []attempt) {
	for _, s := range []struct {
		name string
		cert func(t *testing.T, w *world) tls.Certificate
	}{
		{"an agent", func(t *testing.T, w *world) tls.Certificate { return w.genuine(t, asAgent).cert }},
		{"an operator", func(t *testing.T, w *world) tls.Certificate { return w.genuine(t, asOperator).cert }},
		{"a server of another shard", func(t *testing.T, w *world) tls.Certificate {
			return w.serverOf(t, "other.dev.nstance", x509.ExtKeyUsageServerAuth).sign(t)
		}},
		{"a server of another cluster", func(t *testing.T, w *world) tls.Certificate {
			return w.serverOf(t, "local.prod.nstance", x509.ExtKeyUsageServerAuth).sign(t)
		}},
		{"a server whose certificate is for clients", func(t *testing.T, w *world) tls.Certificate {
			return w.serverOf(t, box.ServerName, x509.ExtKeyUsageClientAuth).sign(t)
		}},
		{"a server whose certificate is over", func(t *testing.T, w *world) tls.Certificate {
			f := w.serverOf(t, box.ServerName, x509.ExtKeyUsageServerAuth)
			f.NotAfter = time.Now().Add(-time.Second)
			return f.sign(t)
		}},
		{"a server of an authority with the same name", func(t *testing.T, w *world) tls.Certificate {
			f := w.serverOf(t, box.ServerName, x509.ExtKeyUsageServerAuth)
			f.under(t, w.authority.Subject, w.authority.SubjectKeyId)
			return f.sign(t)
		}},
	} {
		rows = append(rows,
			attempt{"F43", s.name + " as a server for the command line", badHandshake, func(t *testing.T, w *world) string {
				return w.pose(t, s.cert(t, w), w.commandLine)
			}},
			attempt{"F43", s.name + " as a server for a new machine", badHandshake, func(t *testing.T, w *world) string {
				return w.pose(t, s.cert(t, w), w.newMachine)
			}})
	}
	return append(rows, attempt{"F43", "a server as it is for the command line", letIn, func(t *testing.T, w *world) string {
		return w.pose(t, w.serverOf(t, box.ServerName, x509.ExtKeyUsageServerAuth).sign(t), w.commandLine)
	}}, attempt{"F43", "a server as it is for a new machine", letIn, func(t *testing.T, w *world) string {
		return w.pose(t, w.serverOf(t, box.ServerName, x509.ExtKeyUsageServerAuth).sign(t), w.newMachine)
	}})
}()

// serverOf is the certificate of a server with a name.
func (w *world) serverOf(t *testing.T, name string, usage x509.ExtKeyUsage) *forgery {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		t.Fatal(err)
	}
	return &forgery{
		Certificate: x509.Certificate{
			SerialNumber: serial, Subject: pkix.Name{CommonName: "impostor"}, DNSNames: []string{name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{usage}, BasicConstraintsValid: true,
		},
		key: box.NewKey(t), signer: w.caKey, parent: w.authority,
	}
}

// pose waits with a certificate for one of our programs, which is told the address, and
// returns what becomes of the handshake.
func (w *world) pose(t *testing.T, cert tls.Certificate, program func(t *testing.T, addr string) *exec.Cmd) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nobody is waited for any more
	cmd := program(t, l.Addr().String())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
	}()
	if tcp, ok := l.(*net.TCPListener); ok {
		if err := tcp.SetDeadline(time.Now().Add(box.Patience)); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := l.Accept()
	if err != nil {
		t.Fatalf("%s does not come: %v", cmd, err)
	}
	defer func() { _ = raw.Close() }() // it was for the handshake
	conn := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13})
	if err := conn.HandshakeContext(call(t)); err != nil {
		return badHandshake
	}
	return letIn
}

// program is the path of one of the programs that are attacked.
func program(t *testing.T, name string) string {
	t.Helper()
	if *programs == "" {
		return box.Program(t, name)
	}
	dir, err := filepath.Abs(*programs)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// commandLine lists groups at an address.
func (w *world) commandLine(t *testing.T, addr string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.json")
	text, err := json.Marshal(map[string]any{
		"tenant": identity.DefaultTenant, "identity_dir": w.Identity(), "shard": box.Shard, "servers": map[string]string{box.Shard: addr},
	})
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), program(t, "nstance-admin"), "group", "list", "--context", path)
}

// newMachine registers an agent at an address.
func (w *world) newMachine(t *testing.T, addr string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	cert, err := os.ReadFile(w.Path("bucket", "ca.crt"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ca.crt"), cert, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "nonce.jwt"), []byte(w.victim.token), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program(t, "nstance-agent"))
	cmd.Env = append(os.Environ(),
		identity.EnvIdentityDir+"="+dir, identity.EnvKeysDir+"="+filepath.Join(dir, "keys"), identity.EnvRecvDir+"="+filepath.Join(dir, "recv"),
		identity.EnvInstanceID+"="+w.victim.id.String(), identity.EnvServerRegistrationAddr+"="+addr, identity.EnvServerAgentAddr+"="+addr)
	return cmd
}
