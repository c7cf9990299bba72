/// A point in time in whole milliseconds since 1970-01-01T00:00:00Z, the resolution of every date Apple sends.
///
/// The range is 1970 to the end of year 9999, so that every instant can be written as ISO 8601 and stored as
/// `timestamptz` without a special case.
// `@usableFromInline`: without it, other modules compare instants through witness tables.
@usableFromInline
package struct Instant: Hashable, Comparable, Sendable {
    @usableFromInline package let milliseconds: Int64

    package static let earliest = Instant(unchecked: 0)
    package static let latest = Instant(unchecked: 253_402_300_799_999)

    /// Nil outside 1970...9999: an absurd date is a defect of its field.
    package init?(milliseconds: Int64) {
        guard (Self.earliest.milliseconds...Self.latest.milliseconds).contains(milliseconds) else { return nil }
        self.milliseconds = milliseconds
    }

    private init(unchecked milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    @inlinable
    package static func < (left: Instant, right: Instant) -> Bool {
        left.milliseconds < right.milliseconds
    }

    /// Returns the instant shifted by the amount, clamped to 1970...9999.
    package func advanced(byMilliseconds amount: Int64) -> Instant {
        let (sum, overflow) = milliseconds.addingReportingOverflow(amount)
        guard !overflow else { return amount < 0 ? .earliest : .latest }
        return Instant(unchecked: min(max(sum, Self.earliest.milliseconds), Self.latest.milliseconds))
    }
}

extension Instant {
    /// Returns the instant shifted by the duration. See ``advanced(byMilliseconds:)``.
    package func advanced(by duration: Duration) -> Instant {
        // Not a quotient of durations, which is a Double and may lie just below the whole number.
        let (seconds, attoseconds) = duration.components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        guard !overflow else { return seconds < 0 ? .earliest : .latest }
        return advanced(byMilliseconds: product).advanced(byMilliseconds: attoseconds / 1_000_000_000_000_000)
    }

    /// Returns the time from this instant to the other, negative if that is earlier.
    package func duration(to other: Instant) -> Duration {
        .milliseconds(other.milliseconds - milliseconds)
    }
}

// MARK: - Calendar

extension Instant {
    /// Nil if a field is out of range or the date does not exist. Second 60 is not accepted.
    package init?(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int, millisecond: Int = 0) {
        guard (1970...9999).contains(year), (1...12).contains(month),
            (1...Self.days(in: month, of: year)).contains(day), (0...23).contains(hour), (0...59).contains(minute),
            (0...59).contains(second),
            (0...999).contains(millisecond)
        else { return nil }
        let seconds = (Self.daysSinceEpoch(year, month, day) * 24 + hour) * 3600 + minute * 60 + second
        self.init(milliseconds: Int64(seconds) * 1000 + Int64(millisecond))
    }

    static func days(in month: Int, of year: Int) -> Int {
        switch month {
        case 2: (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Days since 1970-01-01 in the proleptic Gregorian calendar. Years are counted from 1 March, so that the leap day
    /// is the last day of the year.
    private static func daysSinceEpoch(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let marchYear = month > 2 ? year : year - 1
        let marchMonth = (month + 9) % 12
        let dayOfYear = (153 * marchMonth + 2) / 5 + day - 1
        return marchYear * 365 + marchYear / 4 - marchYear / 100 + marchYear / 400 + dayOfYear - 719_468
    }

    package var calendarDate: (year: Int, month: Int, day: Int) {
        let shifted = Int(milliseconds / 86_400_000) + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
    }
}

// MARK: - ISO 8601

extension Instant: CustomStringConvertible {
    /// `2019-11-08T08:11:46.000Z`: always UTC, always milliseconds.
    @usableFromInline package var description: String {
        String(unsafeUninitializedCapacity: 24) { buffer in
            writeISO8601(to: buffer)
            return 24
        }
    }

    /// Writes the 24 ASCII bytes of `description`.
    package func writeISO8601(to buffer: UnsafeMutableBufferPointer<UInt8>) {
        let (year, month, day) = calendarDate
        let ofDay = Int(milliseconds % 86_400_000)
        func digits(_ value: Int, _ count: Int, at offset: Int) {
            var rest = value
            for index in stride(from: offset + count - 1, through: offset, by: -1) {
                buffer[index] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            }
        }
        digits(year, 4, at: 0)
        digits(month, 2, at: 5)
        digits(day, 2, at: 8)
        digits(ofDay / 3_600_000, 2, at: 11)
        digits(ofDay / 60_000 % 60, 2, at: 14)
        digits(ofDay / 1000 % 60, 2, at: 17)
        digits(ofDay % 1000, 3, at: 20)
        buffer[4] = UInt8(ascii: "-")
        buffer[7] = UInt8(ascii: "-")
        buffer[10] = UInt8(ascii: "T")
        buffer[13] = UInt8(ascii: ":")
        buffer[16] = UInt8(ascii: ":")
        buffer[19] = UInt8(ascii: ".")
        buffer[23] = UInt8(ascii: "Z")
    }

    /// Accepts only the 24 ASCII bytes of `description`.
    init?(canonical bytes: UnsafeBufferPointer<UInt8>) {
        guard bytes.count == 24, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            bytes[10] == UInt8(ascii: "T"), bytes[13] == UInt8(ascii: ":"), bytes[16] == UInt8(ascii: ":"),
            bytes[19] == UInt8(ascii: "."), bytes[23] == UInt8(ascii: "Z")
        else { return nil }
        var isNumber = true
        func number(_ first: Int, _ count: Int) -> Int {
            var value = 0
            for index in first..<first + count {
                let digit = bytes[index] &- UInt8(ascii: "0")
                if digit > 9 { isNumber = false }
                value = value * 10 + Int(digit)
            }
            return value
        }
        let (year, month, day) = (number(0, 4), number(5, 2), number(8, 2))
        let (hour, minute, second) = (number(11, 2), number(14, 2), number(17, 2))
        let millisecond = number(20, 3)
        guard isNumber else { return nil }
        self.init(
            year: year, month: month, day: day, hour: hour, minute: minute, second: second, millisecond: millisecond)
    }

    /// Parses `2019-11-08T08:11:46Z`, optionally with one to nine fraction digits (truncated to milliseconds) and with
    /// an offset such as `+09:00` instead of `Z`. A date `2019-11-08` means midnight UTC.
    package init?(iso8601 text: some StringProtocol) {
        var reader = DigitReader(bytes: Array(text.utf8))
        guard let year = reader.digits(4), reader.take("-"), let month = reader.digits(2), reader.take("-"),
            let day = reader.digits(2)
        else { return nil }
        if reader.isAtEnd {
            self.init(year: year, month: month, day: day, hour: 0, minute: 0, second: 0)
            return
        }
        guard reader.take("T") || reader.take("t"), let hour = reader.digits(2), reader.take(":"),
            let minute = reader.digits(2), reader.take(":"), let second = reader.digits(2)
        else { return nil }
        var millisecond = 0
        if reader.take(".") {
            guard let fraction = reader.fraction() else { return nil }
            millisecond = fraction
        }
        guard let offsetMinutes = reader.zoneMinutes(), reader.isAtEnd,
            let local = Instant(
                year: year, month: month, day: day, hour: hour, minute: minute, second: second,
                millisecond: millisecond)
        else { return nil }
        self.init(milliseconds: local.milliseconds - Int64(offsetMinutes) * 60_000)
    }
}

/// Reads the fixed-width digit groups of a date string.
package struct DigitReader {
    private let bytes: [UInt8]
    private var offset = 0

    package init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    package var isAtEnd: Bool { offset == bytes.count }

    package mutating func digits(_ count: Int) -> Int? {
        guard offset + count <= bytes.count else { return nil }
        var value = 0
        for byte in bytes[offset..<offset + count] {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            value = value * 10 + Int(byte - UInt8(ascii: "0"))
        }
        offset += count
        return value
    }

    package mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard offset < bytes.count, bytes[offset] == UInt8(ascii: scalar) else { return false }
        offset += 1
        return true
    }

    fileprivate mutating func fraction() -> Int? {
        var milliseconds = 0
        var count = 0
        while count < 9, let digit = digits(1) {
            if count < 3 { milliseconds = milliseconds * 10 + digit }
            count += 1
        }
        guard count > 0 else { return nil }
        for _ in count..<max(count, 3) { milliseconds *= 10 }
        return milliseconds
    }

    /// Minutes east of UTC.
    fileprivate mutating func zoneMinutes() -> Int? {
        if take("Z") || take("z") { return 0 }
        let sign: Int
        if take("+") { sign = 1 } else if take("-") { sign = -1 } else { return nil }
        guard let hours = digits(2), take(":"), let minutes = digits(2), hours < 24, minutes < 60 else { return nil }
        return sign * (hours * 60 + minutes)
    }
}
