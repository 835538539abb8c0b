// Package browser drives a real Chromium without a window, for tests and measurements of pages.
//
// It is Debian's package chromium, or what CHROMIUM names. Whatever a page logs as an error and
// whatever it throws is kept, so that a test can say that there was nothing of it: a breach of
// the content security policy is such an error.
package browser
