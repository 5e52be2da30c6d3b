// Package diagram draws the past of a job as a space-time diagram: ranks as
// horizontal lines, checkpoints as marks on them, messages as arrows, and the
// recovery line across all ranks with what is lost behind it.
//
//	err := diagram.Draw(w, "svg", diagram.Figure{History: h, Line: line})
//
// It is legible from 2 to 64 ranks. Where there are too many messages for that,
// only those are drawn that the recovery is about. A history without messages
// shows one arrow for all messages between two intervals of two ranks, which is
// what the counters of the checkpoints tell.
//
// The same figure gives the same file, except that the text of SVG and PDF needs
// a sans-serif font where it is shown. Colours are those of Okabe and Ito, which
// the colour-blind tell apart.
package diagram
