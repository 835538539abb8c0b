package driver

// Closer is implemented by drivers that hold something open, such as connections or
// goroutines.
type Closer interface {
	// Close lets go of it. It is called once, when no other method runs or will be
	// called. What was accepted before goes on: machines do not notice.
	Close()
}
