//go:build kube

package operator_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/env/kube"
)

// O1: an operator whose certificate is about to end gets another one over the same key, long
// before that, and has its shards and its work all the while. What registers operators is not
// asked again: its nonce was used.
func TestO1_TheCertificateIsRenewedInTime(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "renewed", "shards: [a, b]", 1)
	before := s.secret(t, "nstance-operator-key")
	s.crash(t)
	short := s.shards.Certify(string(before.Data["public.key"]), 3*time.Minute)
	s.replaceCertificate(t, short)
	s.start(t)

	var until time.Time
	kube.Await(t, "there is another certificate", func(context.Context) error {
		now := s.secret(t, "nstance-operator-cert").Data[corev1.TLSCertKey]
		if string(now) == string(short) {
			return errors.New("it is the same")
		}
		until = endOf(t, now)
		return s.connected(t.Context())
	})
	if end := endOf(t, short); !time.Now().Before(end) || !until.After(end) {
		t.Errorf("the old certificate ended at %v, and the new one ends at %v", end, until)
	}
	kube.Await(t, "it is said", s.event(s.cluster(), "CertificateRenewed", ""))
	if after := s.secret(t, "nstance-operator-key"); string(after.Data["public.key"]) != string(before.Data["public.key"]) {
		t.Error("it has another key")
	}
	s.scale(t, "renewed", 2)
	kube.Await(t, "both shards do what they are told", s.settled("renewed", 2))
	if err := s.connected(t.Context()); err != nil {
		t.Error(err)
	}
}

// secret returns a Secret of the operator's namespace.
func (i *installation) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret, err := i.client.CoreV1().Secrets(i.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// replaceCertificate puts another certificate, in PEM, in the place of the operator's.
func (i *installation) replaceCertificate(t *testing.T, certificate []byte) {
	t.Helper()
	secret := i.secret(t, "nstance-operator-cert")
	secret.Data[corev1.TLSCertKey] = certificate
	if _, err := i.client.CoreV1().Secrets(i.namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// endOf is when a certificate, in PEM, ends.
func endOf(t *testing.T, certificate []byte) time.Time {
	t.Helper()
	block, _ := pem.Decode(certificate)
	if block == nil {
		t.Fatal("this is no certificate")
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.NotAfter
}
