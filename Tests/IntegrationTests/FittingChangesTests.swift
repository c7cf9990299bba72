import EventLog
import Subscriptions
import Testing

@testable import HTTPServer
@testable import Readers

@Suite("A page of changes stays within its size limit")
struct FittingChangesTests {
    private let page = ChangeReader.Page(
        changes: (1...5).map { number in
            ChangeReader.PublishedChange(
                place: ReadPlace(number: Int64(number)), publishedAt: TestBundle.now,
                change: Change(.opened, of: "\(number)", at: TestBundle.now, cause: .clock),
                customer: ChangeReader.Customer())
        }, asOf: TestBundle.now, through: ReadPlace(number: 7))

    @Test("a page that fits is not cut, and keeps its cursor")
    func whole() {
        let fitting = FittingChanges(page)

        #expect(fitting.places.map(\.number) == [1, 2, 3, 4, 5])
        #expect(fitting.through.number == 7)
        #expect(!fitting.isCut)
    }

    @Test("a page that is too large ends after the changes that fit, and its cursor points there")
    func cut() {
        let each = FittingChanges(page).texts[0].count

        let fitting = FittingChanges(page, bytesMax: 2 * each)

        #expect(fitting.places.map(\.number) == [1, 2])
        #expect(fitting.texts.count == 2)
        #expect(fitting.through.number == 2)
        #expect(fitting.isCut)
    }

    @Test("a single change that exceeds the limit is returned, so that its reader can advance")
    func oneChange() {
        let fitting = FittingChanges(page, bytesMax: 1)

        #expect(fitting.places.map(\.number) == [1])
        #expect(fitting.through.number == 1)
        #expect(fitting.isCut)
    }
}
