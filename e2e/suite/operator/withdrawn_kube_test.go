//go:build kube && operator

package operator_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/env/kube"
)

// O1: an operator whose record was deleted is refused by every shard. With a new nonce in its Secret it registers
// again, with another key and without a restart.
func TestO1_AnOperatorWithoutItsRecordRegistersAgain(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "withdrawn", "shards: [a, b]", 1)
	before, leader := s.secret(t, "nstance-operator-key"), s.leader(t)
	s.shards.Withdraw(string(before.Data["public.key"]))
	for _, shard := range s.shards.Shards() { // a new process reads the records at once, one that runs within minutes
		s.shards.Kill(shard)
		s.shards.Start(shard)
	}
	kube.Await(t, "shard a refuses it", s.reachable("withdrawn", "a", "False"))
	nonce := s.secret(t, "nstance-operator-nonce")
	nonce.Data["nonce.jwt"] = []byte(s.shards.Nonce(s.tenant))
	if _, err := s.client.CoreV1().Secrets(s.namespace).Update(t.Context(), nonce, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "it has another key, and its shards", func(context.Context) error {
		if now := s.secret(t, "nstance-operator-key"); string(now.Data["public.key"]) == string(before.Data["public.key"]) {
			return errors.New("it has the key of before")
		}
		return s.connected(t.Context())
	})
	s.scale(t, "withdrawn", 2)
	kube.Await(t, "both shards do what they are told", s.settled("withdrawn", 2))
	if now := s.leader(t); now != leader {
		t.Errorf("%s leads, before %s", now, leader)
	}
}
