package kube

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// The files that several components share.
func (c *Cluster) authorityFile() string  { return filepath.Join(c.dir, "ca.crt") }
func (c *Cluster) servingDir() string     { return filepath.Join(c.dir, "serving") }
func (c *Cluster) signingKeyFile() string { return filepath.Join(c.dir, "ca.key") }
func (c *Cluster) tokenKeyFile() string   { return filepath.Join(c.dir, "tokens.key") }

// servingFlags are what every component that serves HTTPS is told.
func (c *Cluster) servingFlags(port int) []string {
	return []string{
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + filepath.Join(c.servingDir(), "tls.crt"),
		"--tls-private-key-file=" + filepath.Join(c.servingDir(), "tls.key"),
	}
}

// etcd is the cluster's memory. It does not wait for the disk: what a crash of the box
// loses goes with the cluster.
func (c *Cluster) etcd(Config) (*part, error) {
	clients, err := FreePort()
	if err != nil {
		return nil, err
	}
	peers, err := FreePort()
	if err != nil {
		return nil, err
	}
	c.etcdURL = "http://" + address(clients)
	peerURL := "http://" + address(peers)
	return &part{
		args: []string{
			"--name=test",
			"--data-dir=" + filepath.Join(c.dir, "etcd"),
			"--listen-client-urls=" + c.etcdURL, "--advertise-client-urls=" + c.etcdURL,
			"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL,
			"--initial-cluster=test=" + peerURL,
			"--unsafe-no-fsync",
			"--log-level=warn",
		},
		healthy: c.answers(c.etcdURL + "/health"),
	}, nil
}

// auditPolicy has who did what to which object in the log, and not what API servers
// do among themselves.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: ["system:apiserver"]}
- {level: Metadata}
`

func (c *Cluster) apiServer(Config) (*part, error) {
	policy := filepath.Join(c.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	encoded, err := keyPEM(key)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.tokenKeyFile(), encoded, 0o600); err != nil {
		return nil, err
	}
	return &part{
		args: append(c.servingFlags(c.apiPort),
			"--advertise-address=127.0.0.1",
			"--endpoint-reconciler-type=none", // nobody reaches it through a Service
			"--etcd-servers="+c.etcdURL,
			"--cert-dir="+filepath.Join(c.dir, "apiserver"),
			"--client-ca-file="+c.authorityFile(),
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file="+c.tokenKeyFile(),
			"--service-account-signing-key-file="+c.tokenKeyFile(),
			"--service-cluster-ip-range="+services.Masked().String(),
			"--allow-privileged=true",
			"--audit-policy-file="+policy,
			"--audit-log-path="+c.auditLog,
			"--audit-log-maxsize=10240", // MB: one file, however long the test
			"--profiling=false",
		),
		healthy: c.answers(c.server.Host + "/readyz"),
	}, nil
}

func (c *Cluster) controllerManager(config Config) (*part, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.componentUser(ControllerManager, "system:kube-controller-manager")
	if err != nil {
		return nil, err
	}
	args := append(c.servingFlags(port),
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+c.tokenKeyFile(),
		"--root-ca-file="+c.authorityFile(),
		"--profiling=false",
	)
	if config.Kubelets {
		if err := c.authority.keyFile(c.signingKeyFile()); err != nil {
			return nil, err
		}
		args = append(args, "--cluster-signing-cert-file="+c.authorityFile(), "--cluster-signing-key-file="+c.signingKeyFile())
	}
	if config.NodeMonitorGrace > 0 {
		args = append(args, "--node-monitor-grace-period="+config.NodeMonitorGrace.String())
	}
	return &part{args: args, healthy: c.answers("https://" + address(port) + "/healthz")}, nil
}

func (c *Cluster) scheduler(Config) (*part, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.componentUser(Scheduler, "system:kube-scheduler")
	if err != nil {
		return nil, err
	}
	return &part{
		args: append(c.servingFlags(port),
			"--kubeconfig="+kubeconfig,
			"--leader-elect=false",
			"--profiling=false",
		),
		healthy: c.answers("https://" + address(port) + "/readyz"),
	}, nil
}

// answers returns a check that a GET of url has the status 200.
func (c *Cluster) answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := c.trusting.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, resp.Status)
		}
		return nil
	}
}
