package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"nstance.dev/protos/identity"
)

const (
	// pingInterval and pingTimeout make a server that has died or stopped known in 15s.
	pingInterval = 10 * time.Second
	pingTimeout  = 5 * time.Second
	// tcpTimeout ends a dial into the void; handshakeTimeout leaves time to a server that
	// a thousand others want to shake hands with.
	tcpTimeout       = 5 * time.Second
	handshakeTimeout = 15 * time.Second

	maxMessage    = 4 << 20
	maxHeaderList = 8 << 10
	bufferSize    = 4 << 10
)

// Dialer makes connections to the servers of one shard.
type Dialer struct {
	// Roots are the authorities that a server's certificate must come from.
	Roots *x509.CertPool
	// ServerName is the name that a server proves, whatever address is dialled.
	ServerName string
	// Certificate is shown to the server; nil: none.
	Certificate *tls.Certificate
	// UserAgent is told to the server.
	UserAgent string
	// DialContext opens the connection below TLS; nil: TCP.
	DialContext func(ctx context.Context, addr string) (net.Conn, error)
}

// Dial returns a connection to addr. It returns at once; the first call on the connection
// establishes it, or fails. The caller closes it.
func (d Dialer) Dial(addr string) (*grpc.ClientConn, error) {
	dial := d.DialContext
	if dial == nil {
		dial = dialTCP
	}
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(credentials.NewTLS(d.tlsConfig())),
		grpc.WithContextDialer(dial),
		grpc.WithNoProxy(),
		grpc.WithUserAgent(d.UserAgent),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: handshakeTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithMaxHeaderListSize(maxHeaderList),
		grpc.WithReadBufferSize(bufferSize),
		grpc.WithWriteBufferSize(bufferSize),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return conn, nil
}

func (d Dialer) tlsConfig() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: d.Roots, ServerName: d.ServerName}
	if d.Certificate != nil {
		// Shown whatever authorities the server lists: there is no other to choose.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return d.Certificate, nil
		}
	}
	return config
}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	return (&net.Dialer{Timeout: tcpTimeout}).DialContext(ctx, "tcp", addr)
}

// Leader returns the address that a server's trailer names as the leader's, or "".
func Leader(trailer metadata.MD) string {
	if v := trailer.Get(identity.LeaderTrailer); len(v) == 1 {
		return v[0]
	}
	return ""
}
