//go:build hosts || hostservice || hostnodes || hostvm

package hosts_test

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// The programs of a node machine without Kubernetes. The kubelet gets its client certificate at
// once, and says to the test which boot of which machine it runs in.
const (
	stubKubelet = `#!/bin/bash
[ "$1" != --version ] || { echo Kubernetes v1.36.3; exit; }
[ ! -e /etc/stub-hangs ] || exec sleep infinity
mkdir -p /var/lib/kubelet/pki
touch /var/lib/kubelet/pki/kubelet-client-current.pem
while :; do
	exec 3<>/dev/tcp/127.0.0.1/$(cat /etc/stub-port) && echo "$(cat /proc/sys/kernel/random/boot_id) $(hostname)" >&3
	exec 3>&-
	sleep 1
done
`
	stubContainerd = `#!/bin/sh
[ "$1" != --version ] || { echo containerd stub; exit; }
exec sleep infinity
`
	stubRunc = `#!/bin/sh
echo runc stub
`
	// Nothing here tells systemd that it is ready.
	stubDropIn = "[Service]\nType=exec\n"
)

// registry serves an archive of a root file system by TLS, and stands for an API server.
type registry struct {
	mux    *http.ServeMux
	server *httptest.Server
	sha256 string
	roots  string // file with the certificate
}

// archive makes one, of the root with the stubs in it.
func archive(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	unpack(t, tree)
	for path, content := range map[string]string{
		"usr/local/bin/kubelet": stubKubelet, "usr/local/bin/containerd": stubContainerd, "usr/local/bin/runc": stubRunc,
		"etc/systemd/system/containerd.service.d/10-stub.conf": stubDropIn,
	} {
		path = filepath.Join(tree, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "root.tar")
	if out, err := exec.CommandContext(t.Context(), "tar", "--create", "--directory", tree, "--file", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("pack the root: %v: %s", err, out)
	}
	return file
}

// serve serves files to what runs on this box.
func serve(t *testing.T, archive string) *registry {
	t.Helper()
	return serveAt(t, "127.0.0.1", archive)
}

// serveAt serves files at an address of this box. The certificate is good for 127.0.0.1 and example.com.
func serveAt(t *testing.T, address, archive string) *registry {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/root.tar", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, archive) })
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}}
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	r := &registry{mux: mux, server: server, sha256: sum(t, archive), roots: filepath.Join(t.TempDir(), "roots.pem")}
	if err := os.WriteFile(r.roots, []byte(r.bundle()), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// large serves an archive that is as another one and has a file of that many random bytes.
func (r *registry) large(t *testing.T, archive string, size int64) *nstancev1.MachineArchive {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "usr/share/large"), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "usr/share/large/bytes"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(f, io.LimitReader(rand.NewChaCha8([32]byte{}), size))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "--append", "--directory", dir, "--file", archive, "./usr/share/large/bytes").CombinedOutput(); err != nil {
		t.Fatalf("add to the archive: %v: %s", err, out)
	}
	r.mux.HandleFunc("/large.tar", func(w http.ResponseWriter, q *http.Request) { http.ServeFile(w, q, archive) })
	return &nstancev1.MachineArchive{Url: r.server.URL + "/large.tar", Sha256: sum(t, archive)}
}

// bundle is the server's certificate in PEM.
func (r *registry) bundle() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw}))
}

func sum(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// nodes hears from the kubelets of machines.
type nodes struct {
	listener net.Listener
	mu       sync.Mutex
	last     string // boot ID
	seen     map[string]int
}

func hear(t *testing.T) *nodes {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &nodes{listener: listener, seen: map[string]int{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(io.LimitReader(conn, 1024)).ReadString('\n')
			conn.Close()
			if id, _, ok := strings.Cut(line, " "); ok {
				n.mu.Lock()
				n.last = id
				n.seen[id]++
				n.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return n
}

func (n *nodes) port() string {
	_, port, _ := net.SplitHostPort(n.listener.Addr().String())
	return port
}

// heard reports whether the kubelet of a boot was heard, and forgets it, so that it has to be heard
// again.
func (n *nodes) heard(bootID string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	heard := n.seen[bootID] > 0
	delete(n.seen, bootID)
	return heard
}

// all are the boots that were heard since the last call.
func (n *nodes) all() (ids []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.seen {
		ids = append(ids, id)
	}
	clear(n.seen)
	return ids
}
