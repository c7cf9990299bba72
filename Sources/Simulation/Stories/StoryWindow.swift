import Encoding
import Foundation

/// The time in which all events of a run's stories lie.
package struct StoryWindow: Sendable, Hashable {
    /// Before the first event of every story.
    package let start: Instant
    /// No event of any story is later.
    package let end: Instant
    /// The fraction of subscriptions that are cancelled in a month after their stories, 0 to 1. Nil if every story is over by
    /// the end of the window, access included; otherwise subscriptions go on until then, and some of them are active.
    package let churn: Double?

    /// A year and a half in the past.
    package static let standard: StoryWindow = {
        let fixed = TestCertificates.validity("2025-01-01T00:00:00Z", "2026-06-30T23:59:59Z")
        return StoryWindow(start: fixed.lowerBound, end: fixed.upperBound, churn: nil)
    }()

    /// The ends of windows whose events can all be signed: not before the end of the standard one.
    package static var ends: ClosedRange<Instant> { standard.end...TestCertificates.Shape().leafValidity.upperBound }

    private init(start: Instant, end: Instant, churn: Double?) {
        self.start = start
        self.end = end
        self.churn = churn
    }

    /// A window as long as the standard one in which subscriptions go on.
    ///
    /// - Parameters:
    ///   - end: Rounded down to a second.
    ///   - churn: See ``churn``.
    package init(until end: Instant, churn: Double) {
        let last = end.advanced(byMilliseconds: -(end.milliseconds % 1000))
        let length = Self.standard.end.milliseconds - Self.standard.start.milliseconds
        self.init(start: last.advanced(byMilliseconds: -length), end: last, churn: churn)
    }

    package var goesOn: Bool { churn != nil }

    /// About half of the stories end access.
    static let storiesPerEnd = 2.0
    /// How often a subscription that ends is not cancelled but cannot be charged, in percent.
    static let billingPercent = 25

    /// The days after the start in which a story may begin.
    ///
    /// - Parameter days: Those in a window in which every story ends.
    func startDays(_ days: Int64) -> Int64 {
        goesOn ? (end.milliseconds - start.milliseconds) / Draw.dayMilliseconds : days
    }

    /// The chance that a subscription is cancelled in a period, 0 to 1; 0 if subscriptions do not go on.
    func churn(in period: CalendarDuration) -> Double {
        let months = Double(period.months) + Double(period.days) * 12 / 365.25
        return 1 - pow(1 - (churn ?? 0), months)
    }
}
