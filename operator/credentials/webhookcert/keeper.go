package webhookcert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/credentials/secrets"
)

// DefaultSecret is the name of the Secret where the chart says no other.
const DefaultSecret = "nstance-operator-webhook-cert"

// Times between two looks at the Secret, and after one that failed.
const (
	lookInterval  = 5 * time.Minute
	retryInterval = 5 * time.Second
)

// Keeper keeps the Secret good and serves what is in it. Every replica has one. It needs
// the rights to get, create and update secrets. The fields are required and do not change.
type Keeper struct {
	Store  secrets.Store
	Secret string
	Names  []string // that the certificate is for
	Log    *slog.Logger
	Now    func() time.Time

	mu      sync.Mutex
	present *tls.Certificate
}

// Run looks after the Secret until ctx ends, and returns nil. What fails is tried again;
// the certificate of before is served meanwhile.
func (k *Keeper) Run(ctx context.Context) error {
	return repeat(ctx, lookInterval, k.once, func(err error) {
		k.Log.WarnContext(ctx, "webhook certificate check failed", "error", err)
	})
}

// repeat does something at once and after each interval, until ctx ends, and returns nil.
// What has failed is told, and done again sooner.
func repeat(ctx context.Context, interval time.Duration, once func(context.Context) error, failed func(error)) error {
	for {
		pause := interval
		if err := once(ctx); err != nil && ctx.Err() == nil {
			failed(err)
			pause = retryInterval
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// once renews what is due and takes in what is stored.
func (k *Keeper) once(ctx context.Context) error {
	stored, err := k.Store.Get(ctx, k.Secret)
	if err != nil && !errors.Is(err, secrets.ErrNotFound) {
		return err
	}
	data, changed, err := Renew(stored.Data, k.Names, k.Now())
	if err != nil {
		return err
	}
	if changed {
		if data, err = k.write(ctx); err != nil {
			return err
		}
		k.Log.InfoContext(ctx, "webhook certificate renewed")
	}
	pair, err := tls.X509KeyPair(data[certificateEntry], data[keyEntry])
	if err != nil {
		return fmt.Errorf("secret %s, %s: %w", k.Secret, certificateEntry, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.present = &pair
	return nil
}

// write stores what is due, or keeps what another replica has stored meanwhile.
func (k *Keeper) write(ctx context.Context) (map[string][]byte, error) {
	s, err := secrets.Write(ctx, k.Store, k.Secret, func(s secrets.Secret) (secrets.Secret, error) {
		if s.Version == "" {
			s.Labels = map[string]string{infrav1.LabelManaged: "true"}
		}
		data, _, err := Renew(s.Data, k.Names, k.Now())
		s.Data = data
		return s, err
	})
	return s.Data, err
}

// GetCertificate returns the certificate for a handshake, as tls.Config asks for it.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.present == nil {
		return nil, errors.New("the webhook certificate does not exist yet")
	}
	return k.present, nil
}

// Ready is a check for a readiness probe: there is a certificate.
func (k *Keeper) Ready(*http.Request) error {
	_, err := k.GetCertificate(nil)
	return err
}
