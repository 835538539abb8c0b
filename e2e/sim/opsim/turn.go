package opsim

// turn is held by one at a time, in the order of asking. It is for what takes time, where a
// mutex would not do: a bubble's clock stands still for who waits for a mutex.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take() { t <- struct{}{} }
func (t turn) give() { <-t }
