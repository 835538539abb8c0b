package shards

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// What a handshake can end with that no repetition mends.
var (
	errMismatch    = errors.New("the server is not one of this shard")
	errCertificate = errors.New("certificate not accepted")
	errRejected    = fmt.Errorf("%w: the server rejects the operator's", errCertificate)
)

// Bounds of a connection.
const (
	pingInterval = 20 * time.Second
	pingTimeout  = 10 * time.Second
	maxReceive   = 16 << 20
	maxSend      = 4 << 20
	// dialTimeout ends a dial into the void; handshakes may take longer where a server
	// has many.
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 10 * time.Second
)

// Credentials say who we are and whom we trust. They are asked for each handshake, so what
// is renewed meanwhile counts from the next connection on. Safe for concurrent use.
type Credentials interface {
	// ClientTLS returns the settings of a connection to a server that proves this name:
	// roots and our certificate. The caller does not change them, and whatever they say
	// insists on TLS 1.3, on the name, and on roots of ours.
	ClientTLS(serverName string) *tls.Config
}

// DialFunc opens a connection below TLS.
type DialFunc func(ctx context.Context, address string) (net.Conn, error)

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
}

// Dial returns a gRPC connection to an address at which a server with this name is
// expected, whatever the address. It returns at once; the first call connects. No proxy is
// used. The errors of calls on it say nothing of a failed handshake but its text: for that
// there is a [Cause].
func Dial(address, serverName string, creds Credentials, dial DialFunc, more ...grpc.DialOption) (*grpc.ClientConn, *Cause, error) {
	if dial == nil {
		dial = dialTCP
	}
	why := &Cause{}
	late := &lateTLS{
		TransportCredentials: credentials.NewTLS(strict(creds.ClientTLS(serverName), serverName)),
		config:               func() *tls.Config { return strict(creds.ClientTLS(serverName), serverName) },
		why:                  why,
	}
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(late),
		grpc.WithContextDialer(dial),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: handshakeTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceive), grpc.MaxCallSendMsgSize(maxSend)),
	}, more...)
	cc, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return cc, why, nil
}

// strict returns the settings of a connection with what no credentials can relax.
func strict(settings *tls.Config, serverName string) *tls.Config {
	settings = settings.Clone()
	settings.MinVersion, settings.MaxVersion = tls.VersionTLS13, 0
	settings.ServerName, settings.InsecureSkipVerify = serverName, false
	if settings.RootCAs == nil {
		settings.RootCAs = x509.NewCertPool() // those of the machine are not ours
	}
	return settings
}

// Cause remembers that a connection failed for a certificate. The zero value remembers
// nothing. Safe for concurrent use.
type Cause struct {
	mu  sync.Mutex
	err error
}

// Of returns err, of a call on the connection, with the cause that gRPC does not pass on.
func (c *Cause) Of(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || c.err == nil {
		return err
	}
	return fmt.Errorf("%w: %w", c.err, err)
}

func (c *Cause) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// lateTLS takes its settings at each handshake again, and notes how handshakes end.
type lateTLS struct {
	credentials.TransportCredentials // with the settings of the dial, for what is no handshake

	config func() *tls.Config
	why    *Cause
}

// ClientHandshake implements [credentials.TransportCredentials].
func (l *lateTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := credentials.NewTLS(l.config()).ClientHandshake(ctx, authority, raw)
	l.why.note(refusalOf(err))
	if err != nil {
		return nil, nil, err
	}
	return notingConn{conn, l.why}, info, nil
}

// Clone implements [credentials.TransportCredentials].
func (l *lateTLS) Clone() credentials.TransportCredentials {
	return &lateTLS{l.TransportCredentials.Clone(), l.config, l.why}
}

// refusalOf tells a server of another shard from one that cannot be trusted at all; nil
// for what may pass.
func refusalOf(err error) error {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return errMismatch
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w: the server's is not signed by the cluster's CA, has expired or is not valid yet", errCertificate)
	}
	return nil
}

// notingConn notes a refusal that comes after the handshake: in TLS 1.3 a client hears
// only with its first read that its certificate was not accepted.
type notingConn struct {
	net.Conn
	why *Cause
}

// Read implements [net.Conn].
func (c notingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		c.why.note(errRejected)
	}
	return n, err
}
