package link_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"nstance.dev/agent/agenttest"
	"nstance.dev/agent/link"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// listen serves over TCP with a server's own configuration, changed by change.
func listen(t *testing.T, c *agenttest.Cluster, change func(*tls.Config)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := c.ServerTLS(agenttest.Shard)
	change(config)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	nstancev1.RegisterRegistrationServiceServer(s, nstancev1.UnimplementedRegistrationServiceServer{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return l.Addr().String()
}

func call(t *testing.T, c *agenttest.Cluster, addr string) codes.Code {
	t.Helper()
	conn, err := link.Dialer{Roots: c.Roots(), ServerName: identity.ServerName(agenttest.Shard, agenttest.ClusterID)}.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = nstancev1.NewRegistrationServiceClient(conn).RegisterAgent(ctx, &nstancev1.RegisterClientRequest{})
	return status.Code(err)
}

func TestDialOverTCP(t *testing.T) {
	c := agenttest.NewCluster(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, tt := range []struct {
		name string
		addr string
		want codes.Code
	}{
		{"a server of ours", listen(t, c, func(*tls.Config) {}), codes.Unimplemented}, // it answered
		{"a closed port", closed.Addr().String(), codes.Unavailable},
		{"F44: TLS 1.2", listen(t, c, func(config *tls.Config) {
			config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		}), codes.Unavailable},
		{"another authority", listen(t, agenttest.NewCluster(t), func(*tls.Config) {}), codes.Unavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := call(t, c, tt.addr); got != tt.want {
				t.Errorf("code %v, want %v", got, tt.want)
			}
		})
	}
}
