import Encoding

/// The requests that the simulated API allows per minute and day, and those it was sent.
package struct PlayQuota: Sendable {
    /// The forms of a refusal. Google has answered in all of them.
    package enum Form: String, Sendable, Hashable, CaseIterable {
        /// 403, though it is not about permission.
        case forbidden
        /// 429 `rateLimitExceeded`.
        case tooManyRequests
        /// 429 `quotaExceeded`.
        case quotaExceeded
        /// 429 `dailyLimitExceeded`.
        case daily
    }

    /// The forms of the header `Retry-After`, which Google does not document.
    package enum RetryAfter: Sendable, Hashable, CaseIterable {
        case missing, seconds, date
    }

    package struct Limits: Sendable {
        /// Of each bucket.
        package var perMinute = 3000
        /// Of all buckets together; nil for no limit.
        package var perDay: Int?
        /// Of the list of voided purchases.
        package var voidedPerDay = 6000
        package var voidedPerHalfMinute = 30
        package var form = Form.tooManyRequests
        package var retryAfter = RetryAfter.missing

        package init() {}
    }

    /// The number of requests of one bucket in an interval.
    private struct Window: Sendable {
        var number: Int64 = -1
        var count = 0

        mutating func add(_ number: Int64) -> Int {
            if number != self.number { self = Window(number: number) }
            count += 1
            return count
        }
    }

    private let limits: Limits
    private var windows: [String: Window] = [:]
    /// The most requests in one minute, by bucket.
    package private(set) var busiestMinutes: [PlayEndpoint.Bucket: Int] = [:]
    /// The number of requests above a limit.
    package private(set) var violations = 0

    init(_ limits: Limits) {
        self.limits = limits
    }

    /// Counts a request.
    ///
    /// - Returns: The refusal, with the value of `Retry-After`; nil if the request is allowed.
    mutating func spend(_ endpoint: PlayEndpoint, at now: Instant) -> (form: Form, retryAfter: String?)? {
        let minute = now.milliseconds / 60_000
        let day = Self.pacificDay(now)
        let inMinute = add("minute \(endpoint.bucket.rawValue)", minute)
        let today = add("day", day)
        busiestMinutes[endpoint.bucket] = max(busiestMinutes[endpoint.bucket] ?? 0, inMinute)
        var refusal: Form?
        if inMinute > limits.perMinute { refusal = limits.form == .daily ? .tooManyRequests : limits.form }
        if endpoint == .voidedPurchases {
            let inHalfMinute = add("voided half minute", now.milliseconds / 30_000)
            if inHalfMinute > limits.voidedPerHalfMinute { refusal = refusal ?? .quotaExceeded }
            if add("voided day", day) > limits.voidedPerDay { refusal = .daily }
        }
        if let perDay = limits.perDay, today > perDay { refusal = .daily }
        guard let refusal else { return nil }
        violations += 1
        return (refusal, retryAfter(now, next: (minute + 1) * 60_000))
    }

    private mutating func add(_ name: String, _ number: Int64) -> Int {
        windows[name, default: Window()].add(number)
    }

    /// The day counter is reset at midnight in California, taken as UTC-8 all year.
    private static func pacificDay(_ now: Instant) -> Int64 { (now.milliseconds - 8 * 3_600_000) / 86_400_000 }

    private func retryAfter(_ now: Instant, next: Int64) -> String? {
        switch limits.retryAfter {
        case .missing: nil
        case .seconds: String((next - now.milliseconds + 999) / 1000)
        case .date: Instant(milliseconds: next)?.httpDate
        }
    }
}

extension Instant {
    /// `Wed, 21 Oct 2015 07:28:00 GMT`.
    package var httpDate: String {
        let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let text = description
        let day = days[Int(milliseconds / 86_400_000 % 7)]
        let month = months[calendarDate.month - 1]
        return "\(day), \(text.dropFirst(8).prefix(2)) \(month) \(text.prefix(4)) \(text.dropFirst(11).prefix(8)) GMT"
    }
}
