package cache

// WithSteps sets what is called before each step that a crash could follow.
func (o Options) WithSteps(before func(step string) error) Options {
	o.before = before
	return o
}
