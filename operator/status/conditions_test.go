package status_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/operator/status"
)

func TestNext(t *testing.T) {
	before := metav1.NewTime(time.Unix(1000, 0))
	now := time.Unix(2000, 500)
	old := []metav1.Condition{
		{Type: "Kept", Status: metav1.ConditionTrue, Reason: "Old", LastTransitionTime: before},
		{Type: "Turned", Status: metav1.ConditionTrue, Reason: "Old", LastTransitionTime: before},
		{Type: "NotOurs", Status: metav1.ConditionTrue, Reason: "Old", LastTransitionTime: before},
	}
	wanted := []metav1.Condition{
		status.Unknown("New", "Why", ""),
		status.False("Turned", "Why", "it broke"),
		status.True("Kept", "Why", ""),
	}
	at := metav1.NewTime(time.Unix(2000, 0))
	want := []metav1.Condition{
		{Type: "Kept", Status: metav1.ConditionTrue, Reason: "Why", ObservedGeneration: 3, LastTransitionTime: before},
		{Type: "New", Status: metav1.ConditionUnknown, Reason: "Why", ObservedGeneration: 3, LastTransitionTime: at},
		{Type: "Turned", Status: metav1.ConditionFalse, Reason: "Why", Message: "it broke", ObservedGeneration: 3, LastTransitionTime: at},
	}
	if diff := cmp.Diff(want, status.Next(old, wanted, 3, now)); diff != "" {
		t.Error(diff)
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	c := status.True("T", "R", strings.Repeat("é", 1000))
	if len(c.Message) > status.MaxMessage || !utf8.ValidString(c.Message) || !strings.HasSuffix(c.Message, "…") {
		t.Errorf("%d bytes, valid: %v", len(c.Message), utf8.ValidString(c.Message))
	}
}
