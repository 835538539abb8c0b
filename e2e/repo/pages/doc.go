// Package pages reads the blocks of code in the pages of the documentation, and checks
// the commands in them without running any.
//
// [Blocks] finds the blocks, with what a page says about each in a comment above it that
// no reader sees:
//
//	<!-- run by: TestToursOfTheProviders in e2e/repo/docs -->
//	<!-- not run: needs an account -->
//
// A [Checker] knows the programs of this repository, kubectl, helm, make, go and the
// scripts of deploy: whether such a command exists, takes these flags and names what
// exists. Of ordinary tools of a shell it knows that they are that; any other program is
// unknown to it, and what to do about that is the caller's to say.
package pages
