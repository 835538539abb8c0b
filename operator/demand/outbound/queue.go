package outbound

import "cmp"

// Answers is how many answers of a session wait at most, where a [Queue] does not say else.
const Answers = 256

// Queue is what one session has to send: answers of type A, and roll-ups of type R. The zero
// value is empty. It ends with its session: what a shard asked for then, it asks for again.
type Queue[A, R any] struct {
	// Room is how many answers wait at most; 0: [Answers].
	Room int

	answers []A // the oldest first
	rollup  *R  // nil: none waits
}

// Answer adds an answer. False: there is no room, and it is dropped.
func (q *Queue[A, R]) Answer(a A) bool {
	if len(q.answers) >= cmp.Or(q.Room, Answers) {
		return false
	}
	q.answers = append(q.answers, a)
	return true
}

// Rollup adds a roll-up. True: it has taken the place of one that was never sent.
func (q *Queue[A, R]) Rollup(r R) bool {
	replaced := q.rollup != nil
	q.rollup = &r
	return replaced
}

// Next takes what is to be sent next: the oldest answer, and the roll-up when no answer is
// left. Both nil: nothing waits. A roll-up is to be put into messages only now, because a later
// one refers to those that were sent.
func (q *Queue[A, R]) Next() (*A, *R) {
	if first := q.NextAnswer(); first != nil {
		return first, nil
	}
	r := q.rollup
	q.rollup = nil
	return nil, r
}

// NextAnswer takes the oldest answer; nil: none waits. It is for answers that go out between
// the messages of one roll-up.
func (q *Queue[A, R]) NextAnswer() *A {
	if len(q.answers) == 0 {
		return nil
	}
	first := q.answers[0]
	var none A
	q.answers[0] = none // so that what was sent is not kept
	q.answers = q.answers[1:]
	if len(q.answers) == 0 {
		q.answers = nil
	}
	return &first
}
