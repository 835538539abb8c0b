package session

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"nstance.dev/agent/credentials"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// reopenWithin is the time over which agents spread the streams that show new certificates.
const reopenWithin = time.Minute

// renewal is the state of the certificate's renewal. It outlives streams.
type renewal struct {
	due     time.Time // of the next attempt
	pending string    // request id of the attempt without an answer
	count   int
}

// renew asks for a new certificate for the same key. The next attempt is scheduled at
// once: an answer that never comes is a failure like any other.
func (st *stream) renew(now time.Time) error {
	s := st.session
	publicKey, err := s.Identity.PublicKeyPEM()
	if err != nil {
		return fmt.Errorf("renew certificate: %w", err)
	}
	s.renewal.count++
	s.renewal.pending = "renew-" + strconv.Itoa(s.renewal.count)
	s.renewal.due = now.Add(retryIn(now, s.Identity.Peer.NotAfter, s.Random()))
	return st.send(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Renew{
		Renew: &nstancev1.Renew{RequestId: s.renewal.pending, PublicKeyPem: publicKey},
	}})
}

// retryIn spreads the pause after a failed attempt by 10% either way.
func retryIn(now, notAfter time.Time, random float64) time.Duration {
	return time.Duration(float64(credentials.RetryRenewal(now, notAfter)) * (0.9 + 0.2*random))
}

// renewed takes the answer. A new certificate is stored first and used from the next
// stream on, which is opened within a minute.
func (st *stream) renewed(ctx context.Context, answer *nstancev1.Renewed, now time.Time) {
	s := st.session
	if answer.GetRequestId() == "" || answer.GetRequestId() != s.renewal.pending {
		return // an answer that came twice, or to a question of another stream
	}
	s.renewal.pending = ""
	if answer.GetCode() != "" {
		s.log.WarnContext(ctx, "certificate was not renewed", "code", answer.GetCode(),
			"reason", answer.GetMessage(), "retry_at", s.renewal.due)
		return
	}
	id, err := s.Credentials.StoreCertificate(answer.GetClientCertificatePem())
	if err != nil {
		s.log.ErrorContext(ctx, "certificate was not renewed", "error", err, "retry_at", s.renewal.due)
		return
	}
	s.Identity = id
	s.renewal.due = id.RenewAt()
	st.reopen = now.Add(time.Duration(s.Random() * float64(reopenWithin)))
	s.log.InfoContext(ctx, "certificate renewed", "serial", id.Peer.Serial, "expires_at", id.Peer.NotAfter)
}
