package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/agent"
	"nstance.dev/agent/agenttest"
	"nstance.dev/agent/credentials"
	"nstance.dev/agent/enroll"
	"nstance.dev/agent/interruption"
	"nstance.dev/agent/settings"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const leader = "leader:8990"

type machine struct {
	*agenttest.Cluster
	t        *testing.T
	settings settings.Settings
	log      bytes.Buffer
	mu       sync.Mutex
	hellos   []string // instance ids
	asked    int      // registrations
}

func newMachine(t *testing.T) *machine {
	dir := t.TempDir()
	m := &machine{Cluster: agenttest.NewCluster(t), t: t, settings: settings.Settings{
		InstanceID:        agenttest.NewID(t),
		RegistrationAddrs: []string{leader}, AgentAddrs: []string{leader},
		Identity: settings.Place{Dir: filepath.Join(dir, "identity"), Mode: 0o600},
		Keys:     settings.Place{Dir: filepath.Join(dir, "keys"), Mode: 0o640},
		Recv:     settings.Place{Dir: filepath.Join(dir, "recv"), Mode: 0o640},
		Provider: interruption.Local,
	}}
	m.UserData(m.settings.Identity.Dir, m.settings.InstanceID)
	return m
}

// script admits the machine and holds its stream open.
func (m *machine) script() agenttest.Script {
	admit := m.Admit(m.settings.InstanceID, 720*time.Hour)
	return agenttest.Script{
		Register: func(r *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.asked++
			return admit(r)
		},
		Connect: func(stream agenttest.Stream, _ identity.Peer) error {
			first, err := stream.Recv()
			if err != nil {
				return err
			}
			m.mu.Lock()
			m.hellos = append(m.hellos, first.GetHello().GetInstanceId())
			m.mu.Unlock()
			welcome := &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_Welcome{Welcome: &nstancev1.Welcome{}}}
			if err := stream.Send(welcome); err != nil {
				return err
			}
			for {
				if _, err := stream.Recv(); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
			}
		},
	}
}

// start runs the agent; the returned function stops it and returns how it ended.
func (m *machine) start() (stop func() (took time.Duration, err error), done <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Run(ctx, m.settings, agent.Options{Version: "1.2.3", DialContext: m.DialContext},
			slog.New(slog.NewJSONHandler(&m.log, nil)))
	}()
	m.t.Cleanup(cancel)
	return func() (time.Duration, error) {
		start := time.Now()
		cancel()
		err := <-ended
		return time.Since(start), err
	}, ended
}

func TestFromUserDataToAStreamAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.Serve(leader, m.script())
		for range 2 { // the second start needs no registration
			stop, _ := m.start()
			synctest.Wait()
			time.Sleep(time.Second)
			if took, err := stop(); err != nil || took > time.Second {
				t.Errorf("Run() = %v after %v", err, took)
			}
		}
		if m.asked != 1 || len(m.hellos) != 2 || m.hellos[0] != m.settings.InstanceID.String() {
			t.Errorf("%d registrations, hellos of %v", m.asked, m.hellos)
		}
		for _, name := range []string{m.settings.Keys.Dir, m.settings.Recv.Dir} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o750 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
	})
}

func TestAMachineThatIsNotAdmittedWaits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(m *machine)
		says  string
	}{
		{"the server refuses", func(m *machine) {
			m.Serve(leader, agenttest.Script{Register: func(*nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
				return nil, status.Error(codes.PermissionDenied, "instance is to be deleted")
			}})
		}, "instance is to be deleted"},
		{"neither nonce nor certificate", func(m *machine) {
			if err := os.Remove(filepath.Join(m.settings.Identity.Dir, credentials.NonceFile)); err != nil {
				m.t.Fatal(err)
			}
		}, "nonce.jwt"},
		{"another machine's nonce", func(m *machine) { m.UserData(m.settings.Identity.Dir, agenttest.NewID(m.t)) }, "malformed nonce"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				tt.spoil(m)
				stop, _ := m.start()
				time.Sleep(24 * time.Hour)
				if took, err := stop(); err != nil || took != 0 {
					t.Errorf("Run() = %v after %v", err, took)
				}
				if n := strings.Count(m.log.String(), `"level":"ERROR"`); n != 1 || !strings.Contains(m.log.String(), tt.says) {
					t.Errorf("%d errors in the log, want one that says %q:\n%s", n, tt.says, m.log.String())
				}
				if n := len(m.Dials()); n > 1 {
					t.Errorf("%d dials", n)
				}
			})
		})
	}
}

func TestWhenTheNonceHasExpiredTheProcessEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, start := newMachine(t), time.Now()
		_, done := m.start()
		err := <-done
		if took := time.Since(start); !errors.Is(err, enroll.ErrNonceExpired) || took < 4*time.Minute+10*time.Second || took > 6*time.Minute+10*time.Second {
			t.Errorf("Run() = %v after %v", err, took)
		}
	})
}

func TestACrashBetweenCertificateAndNonceIsCleanedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.Serve(leader, m.script())
		stop, _ := m.start()
		synctest.Wait()
		if _, err := stop(); err != nil {
			t.Fatal(err)
		}
		m.UserData(m.settings.Identity.Dir, m.settings.InstanceID) // the nonce is there again
		stop, _ = m.start()
		synctest.Wait()
		if _, err := stop(); err != nil || m.asked != 1 {
			t.Errorf("%d registrations, error %v", m.asked, err)
		}
		if _, err := os.Stat(filepath.Join(m.settings.Identity.Dir, credentials.NonceFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("nonce: %v, want %v", err, fs.ErrNotExist)
		}
	})
}

func TestErrorsThatARestartOrAHumanCanRepair(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(m *machine) error
		says  string
	}{
		{"no authority", func(m *machine) error {
			return os.Remove(filepath.Join(m.settings.Identity.Dir, credentials.CAFile))
		}, "ca.crt"},
		{"a broken key", func(m *machine) error {
			return os.WriteFile(filepath.Join(m.settings.Identity.Dir, credentials.KeyFile), []byte("x"), 0o600)
		}, "identity.key"},
		{"a file in place of the directory", func(m *machine) error {
			return os.WriteFile(m.settings.Recv.Dir, nil, 0o600)
		}, "receive directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				m.Serve(leader, m.script())
				if err := tt.spoil(m); err != nil {
					t.Fatal(err)
				}
				_, done := m.start()
				if err := <-done; err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("Run() = %v, want an error that says %q", err, tt.says)
				}
			})
		})
	}
}

func TestHealth(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	m.settings.HealthAddr = l.Addr().String()
	m.Serve(leader, m.script())
	_, done := m.start()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "listen for health checks") {
		t.Fatalf("Run() = %v while the port is taken", err)
	}
	l.Close()
	connected := make(chan struct{})
	script := m.script()
	connect := script.Connect
	script.Connect = func(stream agenttest.Stream, who identity.Peer) error {
		close(connected)
		return connect(stream, who)
	}
	m.Serve(leader, script)
	stop, _ := m.start()
	<-connected
	response, err := http.Get("http://" + m.settings.HealthAddr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if _, err := stop(); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("status %d, Run() = %v", response.StatusCode, err)
	}
}
